/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of released compilers that update caches: runs with the caches kept on the device give the bytes that runs
 * give which get the caches back from the caller. Reads THUNKD_CORPUS; skipped without it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program_in.h"
#include "store/safetensors.h"

enum { STEPS = 8, MOST = 64 };
static const struct model {
    const char *artifact;
    td_run_state_t states[5]; /* without memory */
    uint32_t n_states;
    bool aliased; /* the caches are donated */
} models[] = {
    {"decode_step/0.12.0.1/h100_sxm", {{0, 0, NULL}, {1, 1, NULL}, {2, 2, NULL}, {3, 3, NULL}}, 4, true},
    {"decode_step/0.10.1/h100_sxm", {{2, 2, NULL}, {3, 3, NULL}}, 2, true},
    {"donated_update/0.12.0.1/h100_sxm", {{0, 0, NULL}}, 1, true},
    {"donated_update/0.12.0.1/h100_sxm", {{1, 0, NULL}}, 1, false}, /* crosswise: the output lies in parameter 0 */
    {"donated_update/0.12.0.1/h100_sxm", {{0, 0, NULL}, {1, 0, NULL}}, 2, false},
    {"donated_update/0.11.0/h100_sxm", {{0, 0, NULL}}, 1, true},
    {"net_gpt2_decode_f32/0.12.0.1/h100_sxm", {{0, 0, NULL}, {1, 2, NULL}, {2, 3, NULL}, {3, 4, NULL}}, 4, true},
    {"net_gpt2_decode_bf16/0.12.0.1/h100_sxm", {{0, 0, NULL}, {1, 2, NULL}, {2, 3, NULL}, {3, 4, NULL}}, 4, true},
    {"net_llama_decode_bf16/0.12.0.1/h100_sxm",
     {{0, 0, NULL}, {1, 1, NULL}, {2, 2, NULL}, {4, 4, NULL}, {5, 5, NULL}}, 5, true},
};

static td_payload_table_t *table;
static td_device_t *dev;
static td_program_t *program;
static td_st_t *tensors;
static void *held[MOST]; /* host-side tensors: what is fed */

static bool open_model(const struct model *m, const char *device) {
    const char *corpus = getenv("THUNKD_CORPUS");
    char path[512], inputs[512];
    td_artifact_t *a = NULL;
    td_module_t *mod = NULL;
    td_err_t err = {0};
    if (!corpus) return false;
    snprintf(path, sizeof path, "%s/%s.aot", corpus, m->artifact);
    snprintf(inputs, sizeof inputs, "%s/%.*s/inputs.safetensors", corpus, (int)strcspn(m->artifact, "/"), m->artifact);
    ck_assert_msg(!td_host_device_open(device, td_alloc_default(), &dev, &err), "%s", err.text);
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
    ck_assert_msg(!td_artifact_open_file(path, table, td_alloc_default(), &a, &err), "%s", err.text);
    ck_assert_msg(!td_module_open(a, td_alloc_default(), &mod, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(mod, &(td_program_opts_t){.dev = dev}, &program, &err), "%s", err.text);
    td_module_close(mod);
    td_artifact_close(a);
    ck_assert_msg(!td_st_open_file(inputs, td_alloc_default(), &tensors, &err), "%s", err.text);
    ck_assert_uint_le(td_program_input_count(program), MOST);
    for (uint32_t i = 0; i < td_program_input_count(program); i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        const td_st_tensor_t *t = td_st_find(tensors, name);
        uint64_t n = td_io_host_bytes(td_program_input(program, i)->shape);
        ck_assert(t && t->bytes == n);
        ck_assert(held[i] = aligned_alloc(64, (n + 127) & ~63ull));
        memcpy(held[i], t->data, n);
    }
    return true;
}
static void close_model(void) {
    for (uint32_t i = 0; i < td_program_input_count(program); i++) free(held[i]);
    td_st_close(tensors);
    td_program_destroy(program);
    td_payload_table_destroy(table);
    td_device_destroy(dev);
}

/* Runs on `fed` with everything from the caller, and on `kept` with states; the same must come out of both. */
static void step(const struct model *m, const td_run_state_t *states, td_binding_t *fed, td_binding_t *kept, int no) {
    uint32_t n_out = td_program_output_count(program);
    const void *a[MOST], *b[MOST], *in[MOST];
    td_err_t err = {0};
    ck_assert_uint_le(n_out, MOST);
    memcpy(in, held, sizeof in);
    for (uint32_t k = 0; k < m->n_states; k++) in[states[k].input] = NULL;
    ck_assert_msg(!td_program_run(fed, (const void *const *)held, a, NULL, &err), "%s", err.text);
    td_run_args_t args = {.inputs = in, .outputs = b, .states = states, .n_states = m->n_states};
    ck_assert_msg(!td_program_run_with(kept, &args, &err), "%s", err.text);
    for (uint32_t i = 0; i < n_out; i++) {
        uint64_t n = td_io_host_bytes(td_program_output(program, i)->shape);
        bool is_state = false;
        for (uint32_t k = 0; k < m->n_states; k++) is_state = is_state || states[k].output == i;
        ck_assert_msg(is_state ? !b[i] : !memcmp(a[i], b[i], n), "%s: output %u in step %d", m->artifact, i, no);
    }
    for (uint32_t k = 0; k < m->n_states; k++) {
        const td_shape_t *s = td_program_input(program, states[k].input)->shape;
        uint64_t n = td_io_host_bytes(s);
        uint8_t *as_tensor = malloc(n + 1);
        ck_assert_ptr_nonnull(as_tensor);
        memcpy(held[states[k].input], a[states[k].output], n);
        td_tensor_convert(s, states[k].memory, as_tensor, true);
        ck_assert_msg(!memcmp(as_tensor, held[states[k].input], n), "%s: state %u in step %d", m->artifact, k, no);
        free(as_tensor);
    }
}

START_TEST(kept_is_fed_back) {
    static const char *const devices[] = {"", "delay=3", "delay=4"};
    const struct model *m = &models[_i / 3];
    td_run_state_t states[5];
    td_binding_t *fed = NULL, *kept[2] = {NULL};
    td_err_t err = {0};
    if (!open_model(m, devices[_i % 3])) return;
    ck_assert_msg(!td_binding_create(program, td_alloc_default(), &fed, &err), "%s", err.text);
    for (int k = 0; k < 2; k++)
        ck_assert_msg(!td_binding_create(program, td_alloc_default(), &kept[k], &err), "%s", err.text);
    memcpy(states, m->states, sizeof states);
    for (uint32_t k = 0; k < m->n_states; k++) {
        td_run_state_t *s = &states[k];
        ck_assert_msg(!td_program_state_check(program, s->input, s->output, &err), "%s", err.text);
        ck_assert(!dev->ops->mem_get(dev, td_program_state_bytes(program, s->input), &s->memory, &err));
        memset(s->memory, 0xAA, td_program_state_bytes(program, s->input));
        ck_assert_msg(!td_state_reset(fed, s->input, s->memory, held[s->input], &err), "%s", err.text);
    }
    const td_run_state_t *last = &states[m->n_states - 1];
    if (m->aliased) ck_assert(td_program_aliased(program, last->input, last->output));
    for (int n = 0; n < STEPS; n++) step(m, states, fed, kept[n / 2 % 2], n); /* states go from binding to binding */
    for (uint32_t k = 0; k < m->n_states; k++)
        dev->ops->mem_put(dev, states[k].memory, td_program_state_bytes(program, states[k].input));
    for (int k = 0; k < 2; k++) td_binding_destroy(kept[k]);
    td_binding_destroy(fed);
    close_model();
}
END_TEST

int main(void) {
    if (!getenv("THUNKD_CORPUS")) puts("THUNKD_CORPUS is not set: models with states are not run");
    Suite *s = suite_create("state_models");
    TCase *c = tcase_create("state_models");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, kept_is_fed_back, 0, 3 * sizeof models / sizeof *models);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
