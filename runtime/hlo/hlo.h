/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded HLO module as compact arena structs.
 *
 * Built once from the unpacked messages (td_hlo_parse), immutable afterwards,
 * freed with its arena. Two users only: constants' bytes (all devices) and the
 * host device's kernel compiler. Parsing checks every cross-reference (operand
 * ids, called computations, roots, tuple indices, dimension lists' ranges), so
 * users need not. Strings and literals' bytes live in the same arena or in
 * payloads that the artifact keeps. Thread: any, read only. */
#ifndef TD_RUNTIME_HLO_H
#define TD_RUNTIME_HLO_H

#include "base/span.h"
#include "runtime/shape.h"

/* Every opcode of XLA; TD_HLO(enumerator, wire name). */
#define TD_HLO_OPCODES(X) \
    X(ABS, "abs") X(ACOS, "acos") X(ACOSH, "acosh") X(ADD, "add") X(ADD_DEPENDENCY, "add-dependency") \
    X(AFTER_ALL, "after-all") X(ALL_GATHER, "all-gather") X(ALL_GATHER_DONE, "all-gather-done") \
    X(ALL_GATHER_START, "all-gather-start") X(ALL_REDUCE, "all-reduce") X(ALL_REDUCE_DONE, "all-reduce-done") \
    X(ALL_REDUCE_START, "all-reduce-start") X(ALL_TO_ALL, "all-to-all") X(AND, "and") X(ASIN, "asin") X(ASINH, "asinh") \
    X(ASYNC_DONE, "async-done") X(ASYNC_START, "async-start") X(ASYNC_UPDATE, "async-update") X(ATAN, "atan") X(ATAN2, "atan2") \
    X(ATANH, "atanh") X(BATCH_NORM_GRAD, "batch-norm-grad") X(BATCH_NORM_INFERENCE, "batch-norm-inference") \
    X(BATCH_NORM_TRAINING, "batch-norm-training") X(BITCAST, "bitcast") X(BITCAST_CONVERT, "bitcast-convert") \
    X(BROADCAST, "broadcast") X(CALL, "call") X(CBRT, "cbrt") X(CEIL, "ceil") X(CHOLESKY, "cholesky") X(CLAMP, "clamp") \
    X(CLZ, "count-leading-zeros") X(COLLECTIVE_BROADCAST, "collective-broadcast") \
    X(COLLECTIVE_PERMUTE, "collective-permute") X(COLLECTIVE_PERMUTE_DONE, "collective-permute-done") \
    X(COLLECTIVE_PERMUTE_START, "collective-permute-start") X(COLLECTIVE_REDUCE, "collective-reduce") \
    X(COMPARE, "compare") X(COMPLEX, "complex") \
    X(CONCATENATE, "concatenate") X(CONDITIONAL, "conditional") X(CONSTANT, "constant") X(CONVERT, "convert") \
    X(CONVOLUTION, "convolution") X(COPY, "copy") X(COPY_DONE, "copy-done") X(COPY_START, "copy-start") X(COS, "cosine") \
    X(COSH, "cosh") X(CUSTOM_CALL, "custom-call") X(DIVIDE, "divide") X(DOMAIN, "domain") X(DOT, "dot") \
    X(DYNAMIC_RESHAPE, "dynamic-reshape") X(DYNAMIC_SLICE, "dynamic-slice") \
    X(DYNAMIC_UPDATE_SLICE, "dynamic-update-slice") X(ERF, "erf") X(EXP, "exponential") \
    X(EXPM1, "exponential-minus-one") X(FFT, "fft") X(FLOOR, "floor") X(FUSION, "fusion") X(GATHER, "gather") \
    X(GET_DIMENSION_SIZE, "get-dimension-size") X(GET_TUPLE_ELEMENT, "get-tuple-element") X(IMAG, "imag") \
    X(INFEED, "infeed") X(IOTA, "iota") X(IS_FINITE, "is-finite") X(LOG, "log") X(LOG1P, "log-plus-one") \
    X(LOGISTIC, "logistic") X(MAP, "map") X(MAXIMUM, "maximum") X(MINIMUM, "minimum") X(MULHI, "mulhi") X(MULTIPLY, "multiply") \
    X(NEGATE, "negate") X(NOT, "not") X(OPT_BARRIER, "opt-barrier") X(OR, "or") X(OUTFEED, "outfeed") X(PAD, "pad") \
    X(PARAMETER, "parameter") X(PARTITION_ID, "partition-id") X(POPCNT, "popcnt") X(POWER, "power") \
    X(RAGGED_ALL_TO_ALL, "ragged-all-to-all") X(RAGGED_DOT, "ragged-dot") X(REAL, "real") X(RECV, "recv") \
    X(RECV_DONE, "recv-done") X(REDUCE, "reduce") X(REDUCE_PRECISION, "reduce-precision") \
    X(REDUCE_SCATTER, "reduce-scatter") X(REDUCE_WINDOW, "reduce-window") X(REMAINDER, "remainder") \
    X(REPLICA_ID, "replica-id") X(RESHAPE, "reshape") X(REVERSE, "reverse") X(RNG, "rng") \
    X(RNG_BIT_GENERATOR, "rng-bit-generator") X(RNG_GET_AND_UPDATE_STATE, "rng-get-and-update-state") \
    X(ROUND_AFZ, "round-nearest-afz") X(ROUND_EVEN, "round-nearest-even") X(RSQRT, "rsqrt") X(SCALED_DOT, "scaled-dot") \
    X(SCAN, "scan") X(SCATTER, "scatter") X(SELECT, "select") X(SELECT_AND_SCATTER, "select-and-scatter") X(SEND, "send") \
    X(SEND_DONE, "send-done") X(SET_DIMENSION_SIZE, "set-dimension-size") X(SHIFT_LEFT, "shift-left") \
    X(SHIFT_RIGHT_ARITHMETIC, "shift-right-arithmetic") X(SHIFT_RIGHT_LOGICAL, "shift-right-logical") \
    X(SHUFFLE, "shuffle") X(SIGN, "sign") \
    X(SIN, "sine") X(SINH, "sinh") X(SLICE, "slice") X(SORT, "sort") X(SQRT, "sqrt") \
    X(STOCHASTIC_CONVERT, "stochastic-convert") X(SUBTRACT, "subtract") X(TAN, "tan") X(TANH, "tanh") X(TOPK, "topk") \
    X(TRANSPOSE, "transpose") X(TRIANGULAR_SOLVE, "triangular-solve") X(TUPLE, "tuple") X(WHILE, "while") X(XOR, "xor")

typedef enum td_opcode {
    TD_HLO_UNKNOWN = 0, /* kept by name: it matters only to a device that must evaluate it */
#define X(e, s) TD_HLO_##e,
    TD_HLO_OPCODES(X)
#undef X
    TD_HLO_OPCODE_COUNT
} td_opcode_t;

td_opcode_t td_opcode_from_name(const char *name, size_t size);
const char *td_opcode_name(td_opcode_t op);

typedef struct td_hlo_instr td_hlo_instr_t;
typedef struct td_hlo_comp td_hlo_comp_t;
typedef struct td_hlo_module td_hlo_module_t;

typedef struct td_ints {
    const int64_t *v;
    uint32_t n;
} td_ints_t;

/* Bytes in the memory order of shape->layout, stored as a device stores them
 * (little-endian, sub-byte types packed). For tuples: elements. */
typedef struct td_literal {
    const td_shape_t *shape;
    td_span_t bytes;
    const struct td_payload *payload;    /* whose bytes these are, all of them; NULL: they are in the arena or message */
    const struct td_literal *elements; /* shape->rank of them for a tuple */
} td_literal_t;

typedef struct td_window_dim { /* 0 dilations and strides on the wire read as 1 here */
    int64_t size, stride, pad_low, pad_high, window_dilation, base_dilation;
    bool reversal;
} td_window_dim_t;
typedef struct td_window {
    const td_window_dim_t *dims;
    uint32_t n;
} td_window_t;

typedef struct td_pad_dim {
    int64_t low, high, interior; /* low and high may be negative */
} td_pad_dim_t;
typedef struct td_slice_dim {
    int64_t start, limit, stride;
} td_slice_dim_t;

typedef struct td_dot_dims {
    td_ints_t lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
    td_ints_t lhs_ragged, rhs_group; /* ragged-dot */
} td_dot_dims_t;
typedef struct td_gather_dims {
    td_ints_t offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
    int64_t index_vector_dim;
} td_gather_dims_t;
typedef struct td_scatter_dims {
    td_ints_t update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
        scatter_indices_batching_dims;
    int64_t index_vector_dim;
} td_scatter_dims_t;
typedef struct td_conv_dims {
    int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
    td_ints_t input_spatial, kernel_spatial, output_spatial;
} td_conv_dims_t;

typedef enum td_cmp_dir { TD_CMP_EQ, TD_CMP_NE, TD_CMP_GE, TD_CMP_GT, TD_CMP_LE, TD_CMP_LT } td_cmp_dir_t;

struct td_hlo_instr {
    td_opcode_t opcode;
    uint32_t index; /* position in comp->instrs */
    int64_t id;
    const char *name;
    const char *opcode_name; /* as written, for unknown ones and messages */
    const td_shape_t *shape;
    const td_hlo_comp_t *comp;
    td_hlo_instr_t *const *operands;
    uint32_t n_operands;
    const td_hlo_comp_t *const *called; /* fusion: the body; while: body, condition; conditional: branches; reduce…: to_apply */
    uint32_t n_called;

    td_ints_t dimensions; /* broadcast, reduce, transpose, reverse, concatenate, iota, sort, map */
    int64_t parameter_number;
    const char *op_name; /* parameters: what the framework calls it (metadata), as "params['dense']['bias']"; else NULL */
    int64_t tuple_index;
    const td_literal_t *literal;
    td_slice_dim_t *slice;  /* slice: operand-rank entries */
    uint32_t n_slice;
    td_ints_t dynamic_slice_sizes;
    td_pad_dim_t *pad;
    uint32_t n_pad;
    td_window_t window;
    const td_dot_dims_t *dot;         /* dot, ragged-dot, scaled-dot */
    const td_gather_dims_t *gather;
    td_ints_t gather_slice_sizes;
    const td_scatter_dims_t *scatter;
    const td_conv_dims_t *conv;       /* convolution and convolution custom calls */
    int64_t feature_group_count, batch_group_count; /* at least 1 */
    int32_t precision; /* of dots and convolutions, the highest of the operands': 0 default, 1 high, 2 highest */
    td_cmp_dir_t direction;
    bool total_order;   /* compare: TOTAL of floats */
    bool is_stable;     /* sort */
    bool largest;       /* topk */
    int32_t exponent_bits, mantissa_bits; /* reduce-precision */
    int32_t fft_type;   /* 0 FFT 1 IFFT 2 RFFT 3 IRFFT */
    td_ints_t fft_length;
    int32_t rng_algorithm;    /* 0 default 1 threefry 2 philox */
    int32_t rng_distribution; /* 1 uniform 2 normal */
    int64_t delta;            /* rng-get-and-update-state: added to the state */
    float epsilon;            /* batch-norm-* */
    int64_t feature_index;
    struct { int64_t num_carries; bool is_reverse; } scan;
    bool cholesky_lower;
    struct { bool left_side, lower, unit_diagonal; int32_t transpose_a; } triangular;
    const char *custom_call_target; /* NULL unless custom-call */
    const char *backend_config;     /* text, payload table resolved; "" if none */
    const char *fusion_kind;        /* "kLoop"… or "" */
};

struct td_hlo_comp {
    int64_t id;
    const char *name;
    td_hlo_instr_t *const *instrs; /* operands before users (checked) */
    uint32_t n_instrs;
    td_hlo_instr_t *root;
    td_hlo_instr_t *const *params; /* by parameter number, dense */
    uint32_t n_params;
    uint32_t height; /* 0 when it calls nothing; recursion is refused */
};

struct td_hlo_module {
    const char *name;
    td_hlo_comp_t *const *comps;
    uint32_t n_comps;
    const td_hlo_comp_t *entry;
    const td_shape_t *const *entry_params; /* entry_computation_layout, with layouts */
    uint32_t n_entry_params;
    const td_shape_t *entry_result;
    int64_t replica_count, num_partitions;
    const void *name_table; /* private to hlo.c */
};

/* Finds an instruction by its (module-unique) name; NULL when there is none. */
const td_hlo_instr_t *td_hlo_find(const td_hlo_module_t *m, const char *name, size_t size);

#endif
