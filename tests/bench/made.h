/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact that is made, not compiled: see make_artifact.c. For programs of tests only. */
#ifndef TD_BENCH_MADE_H
#define TD_BENCH_MADE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "proto/write.h"

enum { MADE_INPUT = 4 }; /* elements of the input */

/* ---- numbers ---- */

static inline uint64_t made_next(uint64_t *x) { /* splitmix64 */
    uint64_t z = *x += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Finite floats below 2 that no compressor finds anything in but the exponent's first bit. */
static inline void made_fill(float *v, uint64_t n, uint64_t seed, uint64_t constant) {
    uint64_t x = seed;
    x = made_next(&x) + constant;
    x = made_next(&x); /* far from all others' */
    uint32_t *w = (uint32_t *)v;
    for (uint64_t i = 0; i < n; i += 2) {
        uint64_t z = made_next(&x) & 0xbfffffffbfffffffu;
        memcpy(w + i, &z, i + 1 < n ? 8 : 4);
    }
}

/* ---- the program, as text ---- */

#define MADE_SHAPE "element_type: F32 dimensions: %llu\n" \
                   "layout { minor_to_major: 0 tail_padding_alignment_in_elements: 1 } is_dynamic_dimension: false"
typedef unsigned long long made_ull;

static inline void made_shape(FILE *f, const char *field, uint64_t n) {
    fprintf(f, "%s { " MADE_SHAPE " }\n", field, (made_ull)n);
}
static inline void made_result(FILE *f, const char *field, uint32_t n) {
    fprintf(f, "%s { element_type: TUPLE\n", field);
    made_shape(f, "tuple_shapes", n);
    made_shape(f, "tuple_shapes", n);
    made_shape(f, "tuple_shapes", MADE_INPUT);
    fputs("}\n", f);
}
static inline void made_program_shape(FILE *f, const char *field, const char *parameter, uint32_t n) {
    fprintf(f, "%s {\n", field);
    made_shape(f, "parameters", MADE_INPUT);
    made_result(f, "result", n);
    if (parameter) fprintf(f, "parameter_names: \"%s\"\n", parameter);
    fputs("}\n", f);
}

/* Ids: 1 the input, 2 its copy, 3 the root, 4 and 5 the concatenations, then four to a constant. */
static inline made_ull made_id_of(uint32_t constant, unsigned what) { return 4294967296u + 8 + 4ull * constant + what; }
static inline made_ull made_fixed(unsigned what) { return 4294967296u + what; }

static inline void made_operand_list(FILE *f, uint32_t n, unsigned what) {
    for (uint32_t i = 0; i < n; i++) fprintf(f, "operand_ids: %llu\n", made_id_of(i, what));
}

static inline void made_instructions(FILE *f, uint32_t n, uint64_t m) {
    fputs("instructions { name: \"x\" opcode: \"parameter\"\n", f);
    made_shape(f, "shape", MADE_INPUT);
    fprintf(f, "id: %llu }\ninstructions { name: \"echo\" opcode: \"copy\"\n", made_fixed(1));
    made_shape(f, "shape", MADE_INPUT);
    fprintf(f, "id: %llu operand_ids: %llu }\n", made_fixed(2), made_fixed(1));
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "instructions { name: \"constant_%u\" opcode: \"constant\"\n", i);
        made_shape(f, "shape", m);
        fputs("literal {\n", f);
        made_shape(f, "shape", m);
        fprintf(f, "}\nid: %llu }\n", made_id_of(i, 0));
        for (unsigned k = 1; k <= 2; k++) {
            uint64_t at = k == 1 ? 0 : m - 1;
            fprintf(f, "instructions { name: \"%s_%u\" opcode: \"slice\"\n", k == 1 ? "first" : "last", i);
            made_shape(f, "shape", 1);
            fprintf(f, "slice_dimensions { start: %llu limit: %llu stride: 1 }\nid: %llu operand_ids: %llu }\n",
                    (made_ull)at, (made_ull)at + 1, made_id_of(i, k), made_id_of(i, 0));
        }
    }
    for (unsigned k = 1; k <= 2; k++) {
        fprintf(f, "instructions { name: \"%s\" opcode: \"concatenate\" dimensions: 0\n", k == 1 ? "firsts" : "lasts");
        made_shape(f, "shape", n);
        made_operand_list(f, n, k);
        fprintf(f, "id: %llu }\n", made_fixed(3 + k));
    }
    made_result(f, "instructions { name: \"root\" opcode: \"tuple\" shape", n);
    fprintf(f, "id: %llu operand_ids: %llu operand_ids: %llu operand_ids: %llu }\n", made_fixed(3), made_fixed(4),
            made_fixed(5), made_fixed(2));
}

static inline void made_module(FILE *f, const char *name, uint32_t n, uint64_t m) {
    fprintf(f, "hlo_module_with_config { hlo_module { name: \"%s\" entry_computation_name: \"main\"\n"
               "computations { name: \"main\"\n", name);
    made_instructions(f, n, m);
    made_program_shape(f, "program_shape", "x", n);
    fprintf(f, "id: 1 root_id: %llu }\n", made_fixed(3));
    made_program_shape(f, "host_program_shape", "x", n);
    fputs("entry_computation_id: 1\n}\nconfig {\n", f);
    made_program_shape(f, "entry_computation_layout", NULL, n);
    fputs("replica_count: 1 num_partitions: 1\n} }\n", f);
}

static inline void made_copy(FILE *f, const char *name, uint32_t number, uint32_t from, uint64_t from_at, uint32_t to,
                      uint64_t to_at, uint64_t elements) {
    fprintf(f, "thunks { thunk_info { profile_annotation: \"%s\" thunk_id: %u }\n"
               "device_to_device_copy_thunk { copy_thunk {\n", name, number);
    fprintf(f, "source_buffer { slice { offset: %llu size: %llu buffer_allocation_index: %u element_type: F32 }\n",
            (made_ull)from_at, (made_ull)elements * 4, from);
    made_shape(f, "shape", elements);
    fprintf(f, "} destination_buffer { slice {\noffset: %llu size: %llu buffer_allocation_index: %u\n"
               "element_type: F32 }\n",
            (made_ull)to_at, (made_ull)elements * 4, to);
    made_shape(f, "shape", elements);
    fprintf(f, "} mem_size: %llu } } }\n", (made_ull)elements * 4);
}

/* Allocations: 0 the tuple, 1 to 3 the outputs, 4 the input, 5 + i constant i. */
static inline void made_executable(FILE *f, const char *name, uint32_t n, uint64_t m) {
    fputs("gpu_executable {\n", f);
    made_module(f, name, n, m);
    fprintf(f, "gpu_compute_capability { cuda_compute_capability { major: 9\n"
               "feature_extension: ACCELERATED_FEATURES } }\nmodule_name: \"%s\"\n", name);
    made_program_shape(f, "program_shape", "x", n);
    fprintf(f, "buffer_allocations { values { size: 24 maybe_live_out: true is_tuple: true }\n"
               "values { index: 1 size: %llu maybe_live_out: true }\n"
               "values { index: 2 size: %llu maybe_live_out: true }\n"
               "values { index: 3 size: %d maybe_live_out: true }\n"
               "values { index: 4 size: %d is_entry_computation_parameter: true }\n",
            4ull * n, 4ull * n, 4 * MADE_INPUT, 4 * MADE_INPUT);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "values { index: %u size: %llu is_constant: true }\n", 5 + i, (made_ull)m * 4);
    fputs("}\noutput_info_map { shape_index { } output_info { } }\n", f);
    for (int i = 0; i < 3; i++)
        fprintf(f, "output_info_map { shape_index { indexes: %d } output_info { allocation_index: %d } }\n", i, i + 1);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "constants { symbol_name: \"buffer_for_constant_%u\" allocation_index: %u }\n", i, 5 + i);
    for (uint32_t i = 0; i < n; i++) {
        made_copy(f, "firsts", 2 * i + 1, 5 + i, 0, 1, 4ull * i, 1);
        made_copy(f, "lasts", 2 * i + 2, 5 + i, 4 * (m - 1), 2, 4ull * i, 1);
    }
    made_copy(f, "echo", 2 * n + 1, 4, 0, 3, 0, MADE_INPUT);
    fputs("executable_abi_version { platform_name: \"CUDA\" cuda_platform_version { cuda_toolkit_version: \"12.8.0\"\n"
          "cudnn_version: \"9.10.0\" cub_version: \"3.1.2\" } }\n"
          "buffer_allocations_debug_summary: \"made\\n\"\n}\n", f);
}

/* The program, without its numbers; NULL when memory ended. Free it. */
static inline char *made_text(const char *name, uint32_t n, uint64_t m, size_t *size) {
    char *p = NULL;
    FILE *f = open_memstream(&p, size);
    if (!f) return NULL;
    fputs("executable_and_options { compile_options { executable_build_options { device_ordinal: -1 num_replicas: 1\n"
          "num_partitions: 1 device_assignment { replica_count: 1 computation_count: 1\n"
          "computation_devices { replica_device_ids: 0 } } } profile_version: -1 }\n"
          "pjrt_client_name: \"PjRtStreamExecutorClient\" }\n", f);
    made_executable(f, name, n, m);
    return fclose(f) == 0 ? p : NULL;
}

/* ---- putting the numbers in ---- */

/* The literal of each constant names a payload, as the reader would leave it. */
static inline bool made_attach(const td_artifact_t *a, uint32_t n) {
    const Xla__HloModuleProto *mod = a->exe->hlo_module_with_config->hlo_module;
    uint32_t found = 0;
    for (size_t i = 0; i < mod->computations[0]->n_instructions; i++) {
        Xla__HloInstructionProto *in = mod->computations[0]->instructions[i];
        if (!in->literal) continue;
        in->literal->has_f32s_payload = 1;
        in->literal->f32s_payload = found++;
    }
    return found == n;
}

/* The whole file, as td_artifact_write leaves it in `file`. numbers[i]: m floats of constant i, which must stay while
 * the rope is used. */
static inline td_status_t made_write(const char *name, float *const *numbers, uint32_t n, uint64_t m,
                                     td_write_form_t form, td_compression_t c, td_rope_t *file, td_err_t *err) {
    size_t size = 0;
    char *program = made_text(name, n, m, &size);
    td_payload_t *p = calloc(n, sizeof *p);
    const td_payload_t **list = calloc(n, sizeof *list), *const *kept = NULL;
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_status_t s = program && p && list ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    if (s == TD_OK) s = td_payload_table_create(td_alloc_default(), &table, err);
    if (s == TD_OK)
        s = td_artifact_open((td_span_t){(const uint8_t *)program, size}, table, td_alloc_default(), &a, err);
    if (s == TD_OK && !made_attach(a, n)) s = td_fail(err, TD_INTERNAL, "the program lost constants");
    if (s == TD_OK) {
        for (uint32_t i = 0; i < n; i++) {
            p[i].bytes = (td_span_t){(const uint8_t *)numbers[i], (size_t)m * 4};
            list[i] = &p[i];
        }
        uint32_t n_kept = a->n_payloads;
        kept = a->payloads;
        a->payloads = list;
        a->n_payloads = n;
        s = td_artifact_write(a, form, c, file, err);
        a->payloads = kept;
        a->n_payloads = n_kept;
    }
    td_artifact_close(a);
    td_payload_table_destroy(table);
    free(list);
    free(p);
    free(program);
    return s;
}

#endif
