/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of library and memory thunks from hand-made messages: what is accepted, and each refusal with its words;
 * then a cuDNN fusion made of a sample's kernel, which must give what the kernel gives. */
#include <check.h>
#include <string.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/program.h"
#include "runtime/thunk/thunk.h"

typedef Xla__BufferAssignment__BufferAllocationSliceProto slice_t;
typedef Xla__ShapedSliceProto shaped_t;
typedef Xla__GemmConfigProto__MatrixLayout layout_t;
#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))

static td_module_t module;
static td_buffer_t buffers[8];
static td_parse_t parse;
static td_err_t err;
static td_thunk_t thunk;
static slice_t slices[8];
static shaped_t shaped[8];
static Xla__ShapeProto shapes[8];

static void setup(void) {
    memset(&module, 0, sizeof module);
    memset(buffers, 0, sizeof buffers);
    td_arena_init(&module.arena, td_alloc_default(), 0);
    module.buffers = buffers;
    module.n_allocations = module.n_slots = 8;
    for (int i = 0; i < 8; i++) {
        buffers[i].size = 4096;
        xla__buffer_assignment__buffer_allocation_slice_proto__init(&slices[i]);
        xla__shaped_slice_proto__init(&shaped[i]);
        xla__shape_proto__init(&shapes[i]);
        SET(&slices[i], buffer_allocation_index, i);
        SET(&slices[i], size, 4096);
        shaped[i].slice = &slices[i];
    }
    parse = (td_parse_t){.m = &module, .arena = &module.arena, .slot_count = 8, .slot_cap = 8, .err = &err};
}
static void teardown(void) { td_arena_deinit(&module.arena); }

static td_status_t run(td_status_t (*f)(td_parse_t *, const td_thunk_msg_t *, td_thunk_t *),
                       const td_thunk_msg_t *msg) {
    memset(&thunk, 0, sizeof thunk);
    thunk.annotation = "x.1";
    err.text[0] = 0;
    return f(&parse, msg, &thunk);
}
static void says(const char *what) { ck_assert_msg(strstr(err.text, what), "'%s' lacks '%s'", err.text, what); }

/* ---- matrix products ---- */
static layout_t layouts[4];
static Xla__GemmConfigProto config;
static void layout(layout_t *l, int order, int64_t rows, int64_t cols, int64_t ld) {
    xla__gemm_config_proto__matrix_layout__init(l);
    SET(l, order, (Xla__GemmConfigProto__MatrixLayout__Order)order);
    SET(l, num_rows, rows), SET(l, num_cols, cols), SET(l, leading_dim_stride, ld), SET(l, batch_size, 1);
    SET(l, dtype, (Xla__PrimitiveType)TD_F32);
}
static void gemm_config(void) { /* 2x3 by 3x4 */
    xla__gemm_config_proto__init(&config);
    layout(&layouts[0], 1, 2, 3, 3), layout(&layouts[1], 1, 3, 4, 4), layout(&layouts[2], 1, 2, 4, 4),
        layout(&layouts[3], 1, 2, 4, 4);
    config.lhs_layout = &layouts[0], config.rhs_layout = &layouts[1], config.c_layout = &layouts[2],
    config.output_layout = &layouts[3];
    SET(&config, alpha_real, 1), SET(&config, beta, 0.5);
}

static Xla__Gpu__CublasLtMatmulThunkProto lt;
static td_status_t lt_parse(void) {
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_CUBLAS_LT_MATMUL_THUNK;
    msg.cublas_lt_matmul_thunk = &lt;
    return run(td_gemm_parse, &msg);
}
static void lt_init(void) {
    gemm_config();
    xla__gpu__cublas_lt_matmul_thunk_proto__init(&lt);
    lt.impl_case = XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GEMM_CONFIG;
    lt.gemm_config = &config;
    lt.a = &shaped[0], lt.b = &shaped[1], lt.c = &shaped[2], lt.d = &shaped[3];
}

START_TEST(cublas_lt) {
    lt_init();
    ck_assert_msg(!lt_parse(), "%s", err.text);
    const td_gemm_desc_t *d = thunk.extra;
    ck_assert(thunk.n_args == 4 && d->a.cols == 3 && d->beta == 0.5 && !d->has_bias && thunk.args[3].written &&
              !thunk.args[0].written);
    /* a transposed layout is the other order */
    layout(&layouts[0], 1, 3, 2, 2);
    SET(&layouts[0], transpose, (Xla__BlasTransposeProto)2);
    ck_assert_msg(!lt_parse(), "%s", err.text);
    d = thunk.extra;
    ck_assert(d->a.rows == 2 && d->a.cols == 3 && d->a.column_major && d->conjugate_a);
    /* without beta, C is not looked at */
    lt_init();
    config.beta = 0, config.c_layout = NULL;
    ck_assert_msg(!lt_parse(), "%s", err.text);
    lt_init();
    lt.bias = &shaped[4], lt.aux = &shaped[5], lt.a_scale = &shaped[6], lt.d_amax = &shaped[7];
    SET(&lt, epilogue, (Xla__BlasLtEpilogueProto)TD_EPI_BIAS_GELU_AUX);
    ck_assert_msg(!lt_parse(), "%s", err.text);
    d = thunk.extra;
    ck_assert(thunk.n_args == 8 && d->has_bias && d->has_aux && d->has_a_scale && d->has_amax &&
              d->bias_type == TD_F32);
    ck_assert(thunk.args[5].allocation == 6 && thunk.args[6].allocation == 5 && thunk.args[6].written &&
              thunk.args[7].written);
    /* one matrix for many results */
    lt_init();
    config.beta = 0;
    SET(&layouts[0], batch_size, 5), SET(&layouts[0], batch_stride, 6), SET(&layouts[3], batch_size, 5),
        SET(&layouts[3], batch_stride, 8);
    ck_assert_msg(!lt_parse(), "%s", err.text);
    d = thunk.extra;
    ck_assert(d->b.batch == 5 && d->b.batch_stride == 0 && d->a.batch_stride == 6);
}
END_TEST

START_TEST(cublas_lt_refusals) {
    lt_init(), lt.impl_case = XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GROUPED_GEMM_CONFIG;
    ck_assert_int_eq(lt_parse(), TD_UNSUPPORTED);
    says("grouped");
    lt_init(), config.lhs_layout = NULL;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("a: layout");
    lt_init(), layouts[1].order = 0;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("b: order 0");
    lt_init(), SET(&layouts[1], transpose, (Xla__BlasTransposeProto)7);
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("transpose 7");
    lt_init(), layouts[1].num_rows = 2;
    ck_assert_int_eq(lt_parse(), TD_MISMATCH);
    says("2x3, 2x4");
    lt_init(), layouts[2].num_rows = 3;
    ck_assert_int_eq(lt_parse(), TD_MISMATCH);
    lt_init(), layouts[0].num_rows = layouts[3].num_rows = layouts[2].num_rows = -1;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("negative");
    lt_init(), layouts[0].leading_dim_stride = 1022;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("a: matrix reaches past");
    lt_init(), layouts[0].leading_dim_stride = 1021; /* 1021 + 3 elements: just fits */
    ck_assert_msg(!lt_parse(), "%s", err.text);
    lt_init(), layouts[3].leading_dim_stride = INT64_MAX;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    lt_init(), SET(&layouts[0], batch_size, 3);
    ck_assert_int_eq(lt_parse(), TD_MISMATCH);
    says("3 matrices for 1");
    lt_init(), config.beta = 0, SET(&layouts[3], batch_size, 2);
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("one place");
    lt_init(), SET(&lt, epilogue, (Xla__BlasLtEpilogueProto)TD_EPI_BIAS);
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("bias");
    lt_init(), SET(&lt, epilogue, (Xla__BlasLtEpilogueProto)TD_EPI_GELU_AUX);
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("auxiliary");
    lt_init(), SET(&lt, epilogue, (Xla__BlasLtEpilogueProto)12);
    ck_assert_int_eq(lt_parse(), TD_UNSUPPORTED);
    says("epilogue 12");
    lt_init(), lt.bias = &shaped[4], SET(&slices[4], size, 15),
               SET(&lt, epilogue, (Xla__BlasLtEpilogueProto)TD_EPI_BIAS);
    ck_assert_int_eq(lt_parse(), TD_MISMATCH);
    says("15 bytes for 4");
    lt_init(), lt.d_scale = &shaped[5], SET(&slices[5], size, 3);
    ck_assert_int_eq(lt_parse(), TD_MISMATCH);
    says("d_scale");
    lt_init(), lt.d = NULL;
    ck_assert_int_eq(lt_parse(), TD_MALFORMED);
    says("d: slice");
    lt_init(), SET(&config, scale_mode, 2);
    ck_assert_int_eq(lt_parse(), TD_UNSUPPORTED);
    says("ROCm");
}
END_TEST

START_TEST(legacy_gemm) {
    Xla__Gpu__GemmThunkProto p = XLA__GPU__GEMM_THUNK_PROTO__INIT;
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_GEMM_THUNK;
    msg.gemm_thunk = &p;
    gemm_config();
    ck_assert_int_eq(run(td_gemm_legacy_parse, &msg), TD_MALFORMED);
    p.gemm_config = &config;
    p.lhs_buffer = &slices[0], p.rhs_buffer = &slices[1], p.output_buffer = &slices[2];
    ck_assert_msg(!run(td_gemm_legacy_parse, &msg), "%s", err.text);
    const td_gemm_desc_t *d = thunk.extra;
    ck_assert(thunk.n_args == 4 && thunk.args[2].allocation == 2 && thunk.args[3].allocation == 2 && d->c.ld == 4 &&
              d->beta == 0.5);
    p.rhs_buffer = NULL;
    ck_assert_int_eq(run(td_gemm_legacy_parse, &msg), TD_MALFORMED);
    says("rhs");
    p.rhs_buffer = &slices[1];
    SET(&slices[2], size, 31);
    ck_assert_int_eq(run(td_gemm_legacy_parse, &msg), TD_MALFORMED);
    says("output: matrix reaches past");
}
END_TEST

/* ---- norm ---- */
static void shape(Xla__ShapeProto *s, int64_t *dims, size_t n) {
    SET(s, element_type, (Xla__PrimitiveType)TD_F32);
    s->dimensions = dims, s->n_dimensions = n;
}
START_TEST(norm) {
    static int64_t x[4] = {3, 4, 1, 1}, v[4] = {1, 4, 1, 1}, stat[4] = {3, 1, 1, 1};
    Xla__Gpu__NormThunkProto p = XLA__GPU__NORM_THUNK_PROTO__INIT;
    Xla__Gpu__GpuNormDescriptorProto n = XLA__GPU__GPU_NORM_DESCRIPTOR_PROTO__INIT;
    Xla__Gpu__CudnnNormBackendConfig c = XLA__GPU__CUDNN_NORM_BACKEND_CONFIG__INIT;
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.norm_thunk = &p;
    ck_assert_int_eq(run(td_norm_parse, &msg), TD_MALFORMED);
    p.norm_descriptor = &n, n.backend_config = &c;
    SET(&c, epsilon, 0.5);
    shape(&shapes[0], x, 4), shape(&shapes[1], v, 4), shape(&shapes[2], stat, 4);
    n.x_shape = n.y_or_dx_shape = n.dy_shape = &shapes[0], n.scale_shape = n.dscale_shape = n.dbias_shape = &shapes[1];
    p.x = &slices[0], p.scale = &slices[1], p.y_or_dx = &slices[2];
    ck_assert_msg(!run(td_norm_parse, &msg), "%s", err.text);
    const td_norm_desc_t *d = thunk.extra;
    ck_assert(d->rows == 3 && d->cols == 4 && d->epsilon == 0.5 && !d->has_bias && !d->training && thunk.n_args == 4);
    SET(&c, kind, (Xla__Gpu__CudnnNormBackendConfig__Kind)2);
    ck_assert_int_eq(run(td_norm_parse, &msg), TD_MALFORMED);
    says("dy");
    p.dy = &slices[3], p.expectation = &slices[4], p.norm_factor = &slices[5], p.dscale = &slices[6],
    p.dbias = &slices[7];
    n.expectation_shape = n.norm_factor_shape = &shapes[2];
    ck_assert_msg(!run(td_norm_parse, &msg), "%s", err.text);
    d = thunk.extra;
    ck_assert(d->backward && thunk.n_args == 8 && thunk.args[5].written && thunk.args[7].written &&
              !thunk.args[4].written);
    n.expectation_shape = &shapes[1];
    ck_assert_int_eq(run(td_norm_parse, &msg), TD_MISMATCH);
    says("expectations are 4");
    n.expectation_shape = &shapes[2], n.dscale_shape = &shapes[2];
    ck_assert_int_eq(run(td_norm_parse, &msg), TD_UNSUPPORTED);
    says("dscale");
    SET(&c, kind, (Xla__Gpu__CudnnNormBackendConfig__Kind)3);
    ck_assert_int_eq(run(td_norm_parse, &msg), TD_UNSUPPORTED);
    says("norm kind 3");
}
END_TEST

/* ---- memory ---- */
START_TEST(memory) {
    Xla__Gpu__CopyThunkProto copy = XLA__GPU__COPY_THUNK_PROTO__INIT;
    Xla__Gpu__DeviceToHostCopyThunkProto to_host = XLA__GPU__DEVICE_TO_HOST_COPY_THUNK_PROTO__INIT;
    Xla__Gpu__RngSeedThunkProto seed = XLA__GPU__RNG_SEED_THUNK_PROTO__INIT;
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.device_to_host_copy_thunk = &to_host;
    ck_assert_int_eq(run(td_copy_to_host_parse, &msg), TD_MALFORMED);
    to_host.copy_thunk = &copy;
    copy.source_buffer = &shaped[0], copy.destination_buffer = &shaped[1];
    SET(&copy, mem_size, 4096);
    ck_assert_msg(!run(td_copy_to_host_parse, &msg), "%s", err.text);
    ck_assert(thunk.bytes == 4096 && thunk.args[1].written);
    SET(&copy, mem_size, 4097);
    ck_assert_int_eq(run(td_copy_to_host_parse, &msg), TD_MISMATCH);
    SET(&copy, mem_size, -1);
    ck_assert_int_eq(run(td_copy_to_host_parse, &msg), TD_MISMATCH);
    msg.rng_seed_thunk = &seed;
    seed.dest_buffer = &slices[0];
    ck_assert_msg(!run(td_rng_seed_parse, &msg), "%s", err.text);
    SET(&slices[0], size, 7);
    ck_assert_int_eq(run(td_rng_seed_parse, &msg), TD_MISMATCH);
    for (int k = 0; k < 3; k++) {
        static const unsigned kinds[3] = {XLA__GPU__THUNK_PROTO__IMPL_INFEED_THUNK,
                                          XLA__GPU__THUNK_PROTO__IMPL_HOST_EXECUTE_START_THUNK,
                                          XLA__GPU__THUNK_PROTO__IMPL_HOST_SEND_THUNK};
        static const char *const words[3] = {"infeed queue", "compiled for the CPU", "host callback"};
        msg.impl_case = (Xla__Gpu__ThunkProto__ImplCase)kinds[k];
        ck_assert_int_eq(run(td_thunk_kind_find(kinds[k])->parse, &msg), TD_UNSUPPORTED);
        says(words[k]);
        says("x.1");
    }
}
END_TEST

/* ---- cuDNN fusions ---- */
/* Runs the sample on zeros and returns its first output's first bytes. */
static void run_sample(const td_artifact_t *a, float out[4]) {
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    td_device_t *dev = NULL;
    ck_assert(!td_host_device_create(td_alloc_default(), &dev, &err));
    ck_assert_msg(!td_module_open(a, td_alloc_default(), &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err), "%s", err.text);
    ck_assert(!td_binding_create(p, td_alloc_default(), &b, &err));
    const void *in[64], *results[64];
    static _Alignas(64) uint8_t data[1 << 22];
    for (size_t i = 0; i < sizeof data; i++) data[i] = i % 4 == 3 ? 0x3c : (uint8_t)(i / 4);
    ck_assert(td_program_input_count(p) <= 64 && td_program_output_count(p) <= 64);
    for (uint32_t i = 0; i < td_program_input_count(p); i++) {
        ck_assert(td_io_host_bytes(td_program_input(p, i)->shape) <= sizeof data);
        in[i] = data;
    }
    ck_assert_msg(!td_program_run(b, in, results, NULL, &err), "%s", err.text);
    memcpy(out, results[0], 4 * sizeof *out);
    td_binding_destroy(b), td_program_destroy(p), td_module_close(m), td_device_destroy(dev);
}

/* The fusion of this name also returns a workspace, as cuDNN's do; its users get element 0. undo: puts it back. */
static void add_workspace(Xla__HloModuleProto *m, const char *name, bool undo) {
    static Xla__HloInstructionProto nop = XLA__HLO_INSTRUCTION_PROTO__INIT, tuple = XLA__HLO_INSTRUCTION_PROTO__INIT,
                                    part = XLA__HLO_INSTRUCTION_PROTO__INIT;
    static Xla__HloInstructionProto *fusion, *inner[1024], *outer[1024];
    static Xla__HloComputationProto *body, *user, old_body, old_user;
    static Xla__ShapeProto space = XLA__SHAPE_PROTO__INIT, both = XLA__SHAPE_PROTO__INIT, *parts[2];
    static int64_t dims[1] = {16}, ids[2], from[1] = {(1ll << 40) + 2};
    if (undo) {
        *body = old_body, *user = old_user, fusion->shape = parts[0], fusion->id = part.id;
        return;
    }
    size_t at = 0;
    fusion = NULL;
    for (size_t i = 0; i < m->n_computations && !fusion; i++)
        for (size_t j = 0; j < m->computations[i]->n_instructions && !fusion; j++)
            if (!strcmp(m->computations[i]->instructions[j]->name, name))
                user = m->computations[i], at = j, fusion = user->instructions[j];
    ck_assert_ptr_nonnull(fusion);
    for (size_t i = 0; i < m->n_computations; i++)
        if (m->computations[i]->id == fusion->called_computation_ids[0]) body = m->computations[i];
    old_body = *body, old_user = *user;
    SET(&space, element_type, (Xla__PrimitiveType)TD_S8);
    space.dimensions = dims, space.n_dimensions = 1;
    SET(&both, element_type, (Xla__PrimitiveType)TD_TUPLE);
    both.tuple_shapes = parts, both.n_tuple_shapes = 2;
    parts[0] = fusion->shape, parts[1] = &space;
#define TEXT(x) ((char *)(uintptr_t)(x))
    nop.name = TEXT("nop"), nop.opcode = TEXT("custom-call"), nop.custom_call_target = TEXT("__nop"),
    nop.shape = &space;
    tuple.name = TEXT("both"), tuple.opcode = TEXT("tuple"), tuple.shape = &both, tuple.operand_ids = ids,
    tuple.n_operand_ids = 2;
    part.name = TEXT("part"), part.opcode = TEXT("get-tuple-element"), part.shape = parts[0], part.operand_ids = from,
    part.n_operand_ids = 1;
    SET(&nop, id, 1ll << 40), SET(&tuple, id, (1ll << 40) + 1), SET(&part, id, fusion->id);
    ids[0] = body->root_id, ids[1] = nop.id;
    ck_assert(body->n_instructions + 2 <= 1024 && user->n_instructions + 1 <= 1024);
    memcpy(inner, body->instructions, body->n_instructions * sizeof *inner);
    inner[body->n_instructions] = &nop, inner[body->n_instructions + 1] = &tuple;
    body->instructions = inner, body->n_instructions += 2, body->root_id = tuple.id;
    memcpy(outer, user->instructions, (at + 1) * sizeof *outer);
    outer[at + 1] = &part;
    memcpy(outer + at + 2, user->instructions + at + 1, (user->n_instructions - at - 1) * sizeof *outer);
    user->instructions = outer, user->n_instructions++;
    fusion->shape = &both, fusion->id = from[0];
}

START_TEST(cudnn_fusion) {
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    float want[4], got[4];
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
    ck_assert_msg(!td_artifact_open_file("samples/store/digits/1/h100_sxm.aot", table, td_alloc_default(), &a, &err),
                  "%s", err.text);
    run_sample(a, want);
    Xla__Gpu__GpuExecutableProto *e = (Xla__Gpu__GpuExecutableProto *)(uintptr_t)a->exe;
    Xla__Gpu__ThunkProto *t = NULL;
    for (size_t i = 0; i < e->n_thunks && !t; i++)
        if (e->thunks[i]->impl_case == XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK) t = e->thunks[i];
    ck_assert_ptr_nonnull(t);
    Xla__Gpu__CustomKernelThunkProto *k = t->custom_kernel_thunk;
    Xla__Gpu__CudnnThunkProto c = XLA__GPU__CUDNN_THUNK_PROTO__INIT;
    c.n_args = k->n_args, c.args = k->args;
    t->impl_case = XLA__GPU__THUNK_PROTO__IMPL_CUDNN_THUNK;
    t->cudnn_thunk = &c;
    run_sample(a, got);
    ck_assert_mem_eq(got, want, sizeof want);
    td_module_t *m = NULL;
    c.n_args--;
    ck_assert_int_eq(td_module_open(a, td_alloc_default(), &m, &err), TD_MISMATCH);
    c.n_args++;
    char *annotation = t->thunk_info->profile_annotation;
    t->thunk_info->profile_annotation = (char *)(uintptr_t)"nothing";
    ck_assert_int_eq(td_module_open(a, td_alloc_default(), &m, &err), TD_UNSUPPORTED);
    says("no such instruction");
    t->thunk_info->profile_annotation = annotation;
    shaped_t *more[16], space = XLA__SHAPED_SLICE_PROTO__INIT;
    slice_t nowhere = *k->args[0]->slice;
    ck_assert(k->n_args < 16);
    memcpy(more, k->args, k->n_args * sizeof *more);
    SET(&nowhere, size, 16);
    space.slice = &nowhere;
    more[c.n_args++] = &space, c.args = more;
    add_workspace(e->hlo_module_with_config->hlo_module, annotation, false);
    run_sample(a, got);
    ck_assert_mem_eq(got, want, sizeof want);
    add_workspace(e->hlo_module_with_config->hlo_module, annotation, true);
    t->impl_case = XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK;
    t->custom_kernel_thunk = k;
    td_artifact_close(a);
    td_payload_table_destroy(table);
}
END_TEST

int main(void) {
    Suite *s = suite_create("thunk_parse");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, cublas_lt);
    tcase_add_test(t, cublas_lt_refusals);
    tcase_add_test(t, legacy_gemm);
    tcase_add_test(t, norm);
    tcase_add_test(t, memory);
    tcase_add_test(t, cudnn_fusion);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
