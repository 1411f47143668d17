/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/coverage.h"

#include <string.h>

#define COLLECTIVE "a collective: a thunk kind of its own, or a collective kernel"
#define TRANSFER "a transfer between the program and its host: a thunk kind of its own"
#define PAIR "runs at its start; the done passes the results on"

/* One row for each opcode, in any order; the compiler refuses a missing or a doubled one. */
#define ROWS(P, M, S, N) \
    P(ABS, "") P(ACOS, "") P(ACOSH, "") P(ADD, "") P(AND, "") P(ASIN, "") P(ASINH, "") P(ATAN, "") P(ATAN2, "") \
    P(ATANH, "") P(CBRT, "") P(CEIL, "") P(CLAMP, "") P(CLZ, "") P(COMPARE, "total order included") P(COMPLEX, "") \
    P(CONVERT, "between all types; floats to integers saturate, NaN gives 0") P(COS, "") P(COSH, "") P(DIVIDE, "") \
    P(ERF, "") P(EXP, "") P(EXPM1, "") P(FLOOR, "") P(IMAG, "") P(IS_FINITE, "") P(LOG, "") P(LOG1P, "") \
    P(LOGISTIC, "") P(MAXIMUM, "NaN wins") P(MINIMUM, "NaN wins") P(MULHI, "") P(MULTIPLY, "") P(NEGATE, "") \
    P(NOT, "") P(OR, "") P(POPCNT, "") P(POWER, "") P(REAL, "") P(REDUCE_PRECISION, "") P(REMAINDER, "") \
    P(ROUND_AFZ, "") P(ROUND_EVEN, "") P(RSQRT, "") P(SELECT, "any type") P(SHIFT_LEFT, "") \
    P(SHIFT_RIGHT_ARITHMETIC, "") P(SHIFT_RIGHT_LOGICAL, "") P(SIGN, "") P(SIN, "") P(SINH, "") P(SQRT, "") \
    P(SUBTRACT, "") P(TAN, "") P(TANH, "") P(XOR, "") M(BATCH_NORM_GRAD, "in f64") M(BATCH_NORM_INFERENCE, "in f64") \
    M(BATCH_NORM_TRAINING, "in f64") \
    M(BITCAST, "a macro op only where a width below 8 bits changes; else no value at all") \
    M(BITCAST_CONVERT, "pointwise where the width stays") \
    M(BROADCAST, "as an operand of pointwise operations a map, not an array") M(CHOLESKY, "") M(CONCATENATE, "") \
    M(CONDITIONAL, "a number that names no branch is the last one") M(CONVOLUTION, "") \
    M(COPY, "a change of layout is a map") M(DOT, "BLAS; integers wrap at 32 or 64 bits") \
    M(DYNAMIC_SLICE, "start indices are clamped") M(DYNAMIC_UPDATE_SLICE, "start indices are clamped; in place") \
    M(FFT, "") M(GATHER, "start indices are clamped") M(MAP, "scalar computations") \
    M(PAD, "negative and interior padding") M(RAGGED_DOT, "all three modes") \
    M(REDUCE, "any computation, any number of arrays") \
    M(REDUCE_WINDOW, "any computation; padding contributes nothing") \
    M(RESHAPE, "no value at all where memory order stays") M(REVERSE, "") \
    M(RNG, "Philox over a fixed seed: XLA promises no sequence") \
    M(RNG_BIT_GENERATOR, "bit for bit XLA's; default is Philox") \
    M(RNG_GET_AND_UPDATE_STATE, "one state per instruction, starting anew with each loading") \
    M(SCALED_DOT, "blocks along any dimension") M(SCAN, "") \
    M(SCATTER, "any computation; windows that do not fit are dropped whole") M(SELECT_AND_SCATTER, "") M(SLICE, "") \
    M(SORT, "any comparator, any number of arrays; always stable") M(STOCHASTIC_CONVERT, "to signed integers") \
    M(TOPK, "") M(TRANSPOSE, "") M(TRIANGULAR_SOLVE, "") M(WHILE, "state in place") S(ADD_DEPENDENCY, "") \
    S(AFTER_ALL, "") S(ASYNC_DONE, PAIR) S(ASYNC_START, PAIR) S(ASYNC_UPDATE, PAIR) S(CALL, "") S(CONSTANT, "") \
    S(COPY_DONE, PAIR) S(COPY_START, PAIR) S(DOMAIN, "") S(DYNAMIC_RESHAPE, "arrays are padded to their bounds") \
    S(FUSION, "of every kind, by its body") \
    S(GET_DIMENSION_SIZE, "what set-dimension-size before it set, else the bound") S(GET_TUPLE_ELEMENT, "") \
    S(IOTA, "made in the loop that uses it") S(OPT_BARRIER, "") S(PARAMETER, "") \
    S(PARTITION_ID, "0; on several devices a thunk kind of its own") \
    S(REPLICA_ID, "0; on several devices a thunk kind of its own") \
    S(SET_DIMENSION_SIZE, "arrays are padded to their bounds") S(TUPLE, "") N(ALL_GATHER, COLLECTIVE) \
    N(ALL_GATHER_DONE, COLLECTIVE) N(ALL_GATHER_START, COLLECTIVE) N(ALL_REDUCE, COLLECTIVE) \
    N(ALL_REDUCE_DONE, COLLECTIVE) N(ALL_REDUCE_START, COLLECTIVE) N(ALL_TO_ALL, COLLECTIVE) \
    N(COLLECTIVE_BROADCAST, COLLECTIVE) N(COLLECTIVE_PERMUTE, COLLECTIVE) N(COLLECTIVE_PERMUTE_DONE, COLLECTIVE) \
    N(COLLECTIVE_PERMUTE_START, COLLECTIVE) N(COLLECTIVE_REDUCE, COLLECTIVE) N(RAGGED_ALL_TO_ALL, COLLECTIVE) \
    N(REDUCE_SCATTER, COLLECTIVE) N(CUSTOM_CALL, "a thunk kind of its own, or the kernel of a top-k") \
    N(INFEED, TRANSFER) N(OUTFEED, TRANSFER) N(RECV, TRANSFER) N(RECV_DONE, TRANSFER) N(SEND, TRANSFER) \
    N(SEND_DONE, TRANSFER) \
    N(SHUFFLE, "exchanges registers between a GPU's threads: its mode has no meaning for arrays")

#define ROW_P(e, note) [TD_HLO_##e] = {TD_COVER_POINTWISE, note},
#define ROW_M(e, note) [TD_HLO_##e] = {TD_COVER_MACRO, note},
#define ROW_S(e, note) [TD_HLO_##e] = {TD_COVER_STRUCTURAL, note},
#define ROW_N(e, note) [TD_HLO_##e] = {TD_COVER_NOT, note},
static const td_cover_t covers[TD_HLO_OPCODE_COUNT] = {ROWS(ROW_P, ROW_M, ROW_S, ROW_N)};

/* Each row declares a name, so a doubled one is an error; each opcode uses one, so a missing one is too. */
#define DECLARE(e, note) COVERED_##e,
enum { ROWS(DECLARE, DECLARE, DECLARE, DECLARE) COVERED_COUNT };
#define USE(e, s) _Static_assert(COVERED_##e < COVERED_COUNT, "opcode " s);
TD_HLO_OPCODES(USE)
_Static_assert(COVERED_COUNT == TD_HLO_OPCODE_COUNT - 1, "every opcode has one row");

const td_cover_t *td_host_cover(td_opcode_t op) {
    return op > TD_HLO_UNKNOWN && op < TD_HLO_OPCODE_COUNT ? &covers[op] : NULL;
}

/* Kinds without a row in runtime/thunk/kinds.c. */
static const struct {
    const char *field, *reason;
} thunks[] = {
    {"dynamic_slice_thunk", "not supported yet"},
    {"send_thunk", "point-to-point transfers between devices are not supported yet"},
    {"recv_thunk", "point-to-point transfers between devices are not supported yet"},
    {"collective_done_thunk", "collectives are not supported yet"},
    {"all_gather_thunk", "collectives are not supported yet"},
    {"all_reduce_thunk", "collectives are not supported yet"},
    {"reduce_scatter_thunk", "collectives are not supported yet"},
    {"all_to_all_thunk", "collectives are not supported yet"},
    {"ragged_all_to_all_thunk", "collectives are not supported yet"},
    {"collective_permute_thunk", "collectives are not supported yet"},
    {"collective_broadcast_thunk", "collectives are not supported yet"},
    {"collective_group_thunk", "collectives are not supported yet"},
    {"collective_kernel_thunk", "collectives are not supported yet"},
    {"collective_reduce_thunk", "collectives are not supported yet"},
    {"nvshmem_all_reduce_thunk", "NVSHMEM is a library of GPU clusters"},
    {"nvshmem_collective_permute_thunk", "NVSHMEM is a library of GPU clusters"},
    {"nvshmem_send_thunk", "NVSHMEM is a library of GPU clusters"},
    {"nvshmem_recv_thunk", "NVSHMEM is a library of GPU clusters"},
};

const char *td_thunk_reason(const char *field) {
    for (size_t i = 0; i < sizeof thunks / sizeof *thunks; i++)
        if (!strcmp(thunks[i].field, field)) return thunks[i].reason;
    return NULL;
}
