/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to oneDNN: floats up to f32, one to three spatial dimensions, channels last. Arrays that lie otherwise are
 * brought to that layout; so are types other than f32 and (on processors that multiply it) bf16. What oneDNN would do
 * with its reference code goes the direct path. */
#include "runtime/host/conv_dnnl.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/pool.h"

static dnnl_engine_t engine;
static void engine_make(void) {
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}
dnnl_engine_t td_conv_dnnl_engine(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, engine_make);
    return engine;
}

int td_conv_dnnl_enter(int threads) {
    int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}
void td_conv_dnnl_leave(int before) {
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

typedef struct build { /* one attempt */
    const td_conv_desc_t *d;
    td_conv_dnnl_t *k;
    td_type_t type;       /* of the inputs, as the kernel reads them */
    bool finish;          /* fused arithmetic after the kernel */
    bool channels_first;  /* 1x1 on arrays that lie so */
    dnnl_memory_desc_t x, w, y, bias, plain;
    dnnl_primitive_desc_t pd, reorder;
} build_t;

static dnnl_data_type_t data_type(td_type_t t) { return t == TD_BF16 ? dnnl_bf16 : dnnl_f32; }

/* Strides of a dense array with channels last, or first. */
static void canonical(const td_conv_array_t *a, uint32_t n, bool first, int64_t *outer, int64_t *feature,
                      int64_t *spatial) {
    int64_t step = first ? 1 : a->feature;
    for (uint32_t s = n; s-- > 0; step *= a->spatial[s]) spatial[s] = step;
    *feature = first ? step : 1;
    *outer = first ? step * a->feature : step;
}

static bool lies(const td_conv_array_t *a, uint32_t n, bool first) {
    int64_t outer, feature, spatial[TD_CONV_SPATIAL];
    canonical(a, n, first, &outer, &feature, spatial);
    bool same = (a->outer == 1 || a->outer_stride == outer) && (a->feature == 1 || a->feature_stride == feature);
    for (uint32_t s = 0; s < n; s++) same = same && (a->spatial[s] == 1 || a->spatial_stride[s] == spatial[s]);
    return same;
}

/* Describes an activation to the kernel, and how it gets there. */
static bool activation(build_t *b, const td_conv_array_t *a, td_type_t type, dnnl_memory_desc_t *md,
                       td_conv_stage_t *st) {
    uint32_t n = b->d->n;
    int64_t dst[TD_CONV_SPATIAL + 2], src[TD_CONV_SPATIAL + 2], dims[TD_CONV_SPATIAL + 2] = {a->outer, a->feature};
    dnnl_dims_t md_dims, md_strides;
    canonical(a, n, b->channels_first, &dst[0], &dst[1], dst + 2);
    src[0] = a->outer_stride, src[1] = a->feature_stride;
    for (uint32_t s = 0; s < n; s++) dims[s + 2] = a->spatial[s], src[s + 2] = a->spatial_stride[s];
    for (uint32_t i = 0; i < n + 2; i++) md_dims[i] = dims[i], md_strides[i] = dst[i];
    *st = (td_conv_stage_t){.convert = a->type != type,
                            .move = !lies(a, n, b->channels_first),
                            .from = a->type,
                            .to = type,
                            .count = a->count};
    st->used = st->convert || st->move;
    td_strided_plan(&st->plan, td_type_bytes(type), n + 2, dims, dst, src);
    td_strided_plan(&st->back, td_type_bytes(a->type), n + 2, dims, src, dst);
    return dnnl_memory_desc_init_by_strides(md, (int)n + 2, md_dims, data_type(type), md_strides) == dnnl_success;
}

/* The filter as it lies (after conversion and turning round) and as the kernel wants it. */
static bool filter(build_t *b, td_type_t kernel, td_type_t own) {
    const td_conv_desc_t *d = b->d;
    const td_conv_array_t *a = &d->w;
    td_conv_stage_t *st = &b->k->w;
    int64_t dims[TD_CONV_SPATIAL + 2] = {a->outer, a->feature},
                                   dst[TD_CONV_SPATIAL + 2] = {a->outer_stride, a->feature_stride},
                                   src[TD_CONV_SPATIAL + 2];
    dnnl_dims_t md_dims, md_strides;
    int r = 0;
    *st = (td_conv_stage_t){.convert = a->type != own, .from = a->type, .to = own, .count = a->count};
    if (d->groups > 1) md_dims[r] = d->groups, md_strides[r++] = a->outer / d->groups * a->outer_stride;
    md_dims[r] = a->outer / d->groups, md_strides[r++] = a->outer_stride;
    md_dims[r] = a->feature, md_strides[r++] = a->feature_stride;
    src[0] = dst[0], src[1] = dst[1];
    for (uint32_t s = 0; s < d->n; s++) {
        md_dims[r] = dims[s + 2] = a->spatial[s], md_strides[r++] = dst[s + 2] = src[s + 2] = a->spatial_stride[s];
        if (!d->window[s].reversal || a->spatial[s] == 1) continue;
        st->move = true;
        st->base += (a->spatial[s] - 1) * src[s + 2];
        src[s + 2] = -src[s + 2];
    }
    st->used = st->convert || st->move;
    td_strided_plan(&st->plan, td_type_bytes(own), d->n + 2, dims, dst, src);
    return dnnl_memory_desc_init_by_strides(&b->plain, r, md_dims, data_type(own), md_strides) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&b->w, r, md_dims, data_type(kernel), dnnl_format_tag_any) == dnnl_success;
}

static bool post_ops(build_t *b, dnnl_post_ops_t ops) {
    const td_conv_desc_t *d = b->d;
    static const struct { dnnl_alg_kind_t kind; float alpha, beta;
    } acts[] = {[TD_ACT_SIGMOID] = {dnnl_eltwise_logistic, 0, 0}, [TD_ACT_RELU] = {dnnl_eltwise_relu, 0, 0},
                [TD_ACT_RELU6] = {dnnl_eltwise_clip, 0, 6},       [TD_ACT_TANH] = {dnnl_eltwise_tanh, 0, 0},
                [TD_ACT_ELU] = {dnnl_eltwise_elu, 1, 0},          [TD_ACT_LEAKY_RELU] = {dnnl_eltwise_relu, 0, 0},
                [TD_ACT_GELU] = {dnnl_eltwise_gelu_erf, 0, 0}};
    b->k->side_sum = d->has_side;
    if (d->has_side && dnnl_post_ops_append_sum(ops, (float)d->side_scale) != dnnl_success) return false;
    if (d->activation == TD_ACT_NONE) return true;
    float alpha = d->activation == TD_ACT_LEAKY_RELU ? (float)d->leaky_alpha : acts[d->activation].alpha;
    return dnnl_post_ops_append_eltwise(ops, 1, acts[d->activation].kind, alpha, acts[d->activation].beta) ==
           dnnl_success;
}

static bool attributes(build_t *b, dnnl_primitive_attr_t attr) {
    dnnl_post_ops_t ops;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) != dnnl_success) return false;
    b->k->side_sum = false;
    if (!b->d->fused || b->finish) return true;
    if (dnnl_post_ops_create(&ops) != dnnl_success) return false;
    bool ok = post_ops(b, ops) && dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    dnnl_post_ops_destroy(ops);
    return ok;
}

static bool describe(build_t *b, dnnl_primitive_attr_t attr) {
    const td_conv_desc_t *d = b->d;
    dnnl_dims_t stride, dilate, low, high;
    dnnl_convolution_desc_t cd, hint;
    dnnl_primitive_desc_t hint_pd = NULL;
    for (uint32_t s = 0; s < d->n; s++) {
        stride[s] = d->window[s].stride, dilate[s] = d->window[s].window_dilation - 1;
        low[s] = d->window[s].pad_low, high[s] = d->window[s].pad_high;
    }
    const dnnl_memory_desc_t *bias = b->k->bias ? &b->bias : NULL;
    dnnl_prop_kind_t prop = d->kind == TD_CONV_FORWARD ? dnnl_forward_inference : dnnl_forward_training;
    if (dnnl_dilated_convolution_forward_desc_init(&cd, prop, dnnl_convolution_direct, &b->x, &b->w, bias, &b->y,
                                                   stride, dilate, low, high) != dnnl_success)
        return false;
    if (d->kind == TD_CONV_FORWARD)
        return dnnl_primitive_desc_create(&b->pd, &cd, attr, td_conv_dnnl_engine(), NULL) == dnnl_success;
    hint = cd;
    dnnl_status_t st = d->kind == TD_CONV_BACKWARD_DATA
                           ? dnnl_dilated_convolution_backward_data_desc_init(&cd, dnnl_convolution_direct, &b->x,
                                                                              &b->w, &b->y, stride, dilate, low, high)
                           : dnnl_dilated_convolution_backward_weights_desc_init(
                                 &cd, dnnl_convolution_direct, &b->x, &b->w, NULL, &b->y, stride, dilate, low, high);
    if (st == dnnl_success) st = dnnl_primitive_desc_create(&hint_pd, &hint, NULL, td_conv_dnnl_engine(), NULL);
    if (st == dnnl_success) st = dnnl_primitive_desc_create(&b->pd, &cd, attr, td_conv_dnnl_engine(), hint_pd);
    if (hint_pd) dnnl_primitive_desc_destroy(hint_pd);
    return st == dnnl_success;
}

/* The filter's own pass, where its layout is not the kernel's. */
static bool reordering(build_t *b, dnnl_primitive_attr_t attr) {
    bool back = b->k->result == TD_CONV_W;
    b->w = *dnnl_primitive_desc_query_md(b->pd, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    if (dnnl_memory_desc_equal(&b->w, &b->plain)) return true;
    const dnnl_memory_desc_t *from = back ? &b->w : &b->plain, *to = back ? &b->plain : &b->w;
    return dnnl_reorder_primitive_desc_create(&b->reorder, from, td_conv_dnnl_engine(), to, td_conv_dnnl_engine(),
                                              attr) == dnnl_success;
}

static void build_drop(build_t *b) {
    if (b->pd) dnnl_primitive_desc_destroy(b->pd);
    if (b->reorder) dnnl_primitive_desc_destroy(b->reorder);
    b->pd = b->reorder = NULL;
}

static bool attempt(build_t *b) {
    td_conv_dnnl_t *k = b->k;
    const td_conv_desc_t *d = b->d;
    const td_conv_array_t *out = d->kind == TD_CONV_BACKWARD_DATA ? &d->x : &d->y;
    td_type_t t = b->type,
              result = out->type == TD_BF16 && t == TD_BF16 && !b->finish && lies(out, d->n, false) ? TD_BF16 : TD_F32;
    td_type_t own = k->result == TD_CONV_W ? TD_F32 : d->w.type == TD_BF16 ? TD_BF16 : TD_F32;
    dnnl_primitive_attr_t attr = NULL, plain = NULL;
    const char *impl = "";
    k->bias = d->has_bias && !b->finish;
    k->bias_convert = k->bias && d->bias != TD_F32;
    dnnl_dims_t features = {d->y.feature};
    bool ok = activation(b, &d->x, k->result == TD_CONV_X ? result : t, &b->x, &k->x) &&
              activation(b, &d->y, k->result == TD_CONV_Y ? result : t, &b->y, &k->y) &&
              filter(b, k->result == TD_CONV_W ? TD_F32 : t, own) &&
              dnnl_memory_desc_init_by_tag(&b->bias, 1, features, dnnl_f32, dnnl_a) == dnnl_success &&
              dnnl_primitive_attr_create(&attr) == dnnl_success && dnnl_primitive_attr_create(&plain) == dnnl_success &&
              attributes(b, attr) &&
              dnnl_primitive_attr_set_scratchpad_mode(plain, dnnl_scratchpad_mode_user) == dnnl_success &&
              describe(b, attr) &&
              dnnl_primitive_desc_query(b->pd, dnnl_query_impl_info_str, 0, &impl) == dnnl_success &&
              strncmp(impl, "ref", 3) != 0 && reordering(b, plain);
    if (b->finish) (k->result == TD_CONV_X ? &k->x : &k->y)->used = true;
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (plain) dnnl_primitive_attr_destroy(plain);
    if (!ok) build_drop(b);
    return ok;
}

static bool fits(const td_conv_plan_t *p) {
    const td_conv_desc_t *d = &p->d;
    const td_conv_array_t *const a[3] = {&d->x, &d->w, &d->y};
    bool ok = p->work == TD_F32 && d->n >= 1 && d->n <= 3 && d->batch_groups == 1 && td_conv_dnnl_engine();
    for (int i = 0; i < 3; i++) /* the kernels compute offsets in 32 bits here and there */
        ok = ok && td_type_is_float(a[i]->type) && a[i]->vector == 1 && a[i]->count > 0 && a[i]->count <= INT32_MAX / 4;
    for (uint32_t s = 0; s < d->n && ok; s++) {
        const td_window_dim_t *w = &d->window[s];
        ok = w->base_dilation == 1 && w->pad_low >= 0 && w->pad_high >= 0 && w->pad_low <= INT32_MAX &&
             w->pad_high <= INT32_MAX && w->stride <= INT32_MAX && w->window_dilation <= INT32_MAX &&
             !(w->reversal && d->kind == TD_CONV_BACKWARD_FILTER);
    }
    return ok;
}

/* Only where no array has to be staged: rows in scratch have channels last. */
static bool channels_first(const td_conv_desc_t *d) {
    bool ok = d->groups == 1 && d->x.type == TD_F32 && d->y.type == TD_F32 && d->kind == TD_CONV_FORWARD &&
              !lies(&d->x, d->n, false) && lies(&d->x, d->n, true) && lies(&d->y, d->n, true);
    for (uint32_t s = 0; s < d->n; s++) ok = ok && d->window[s].size == 1 && d->window[s].stride == 1;
    return ok;
}

/* Does some output lie wholly in the padding? oneDNN 2.6's kernels crash there when an activation follows. */
static bool padding_only(const td_conv_desc_t *d) {
    for (uint32_t s = 0; s < d->n; s++) {
        const td_window_dim_t *w = &d->window[s];
        for (int64_t p = 0; p < d->y.spatial[s]; p++) {
            int64_t from = p * w->stride - w->pad_low,
                    skip = from < 0 ? (-from + w->window_dilation - 1) / w->window_dilation : 0;
            if (skip >= w->size || from + skip * w->window_dilation >= d->x.spatial[s]) return true;
        }
    }
    return false;
}

static bool sets_make(build_t *b) {
    td_conv_dnnl_t *k = b->k;
    const dnnl_memory_desc_t *md[TD_CONV_MEMS] = {&b->x, &b->w, &b->y, k->bias ? &b->bias : NULL,
                                                  dnnl_primitive_desc_query_md(b->pd, dnnl_query_scratchpad_md, 0)};
    if (b->reorder)
        md[TD_CONV_MEM_PLAIN] = &b->plain,
        md[TD_CONV_MEM_REORDER_PAD] = dnnl_primitive_desc_query_md(b->reorder, dnnl_query_scratchpad_md, 0);
    for (uint32_t i = 0; i < k->n_sets; i++) {
        if (dnnl_stream_create(&k->sets[i].stream, td_conv_dnnl_engine(), dnnl_stream_default_flags) != dnnl_success)
            return false;
        for (int m = 0; m < TD_CONV_MEMS; m++)
            if (md[m] &&
                dnnl_memory_create(&k->sets[i].mem[m], md[m], td_conv_dnnl_engine(), DNNL_MEMORY_NONE) != dnnl_success)
                return false;
    }
    return true;
}

static bool stage_scratch(td_conv_stage_t *s, uint64_t *scratch) {
    uint64_t n = (uint64_t)s->count, size = td_type_bytes(s->to);
    return td_reserve(scratch, s->convert && s->move ? n : 0, size, &s->raw_at) &&
           td_reserve(scratch, s->used ? n : 0, size, &s->at);
}

static bool scratch_make(td_conv_plan_t *p, build_t *b, uint64_t *scratch) {
    td_conv_dnnl_t *k = b->k;
    td_conv_form_t f = p->form;
    td_conv_desc_t d = p->d;
    f.out *= f.groups, f.groups = 1;
    d.fused = d.fused && b->finish;
    int64_t rows = (1 << 16) / (f.out < (1 << 16) ? f.out : 1 << 16);
    uint64_t unused;
    k->packed_bytes = b->reorder ? dnnl_memory_desc_get_size(&b->w) : 0;
    return stage_scratch(&k->x, scratch) && stage_scratch(&k->w, scratch) && stage_scratch(&k->y, scratch) &&
           td_reserve(scratch, k->bias_convert ? (uint64_t)d.y.feature : 0, 4, &k->bias_at) &&
           td_reserve(scratch, k->packed_bytes, 1, &k->packed_at) &&
           td_reserve(scratch,
                      dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(b->pd, dnnl_query_scratchpad_md, 0)), 1,
                      &k->pad_at) &&
           td_reserve(scratch,
                      b->reorder ? dnnl_memory_desc_get_size(
                                       dnnl_primitive_desc_query_md(b->reorder, dnnl_query_scratchpad_md, 0))
                                 : 0,
                      1, &k->reorder_pad_at) &&
           (k->result == TD_CONV_W ? td_reserve(scratch, 0, 1, &unused)
                                   : td_conv_store_make(&p->store, &d, &f, TD_F32, rows ? rows : 1, scratch));
}

td_status_t td_conv_dnnl_make(td_conv_plan_t *p, td_arena_t *arena, uint64_t *scratch, td_err_t *err) {
    const td_conv_desc_t *d = &p->d;
    if (!fits(p)) return TD_OK;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    td_conv_dnnl_t *k = TD_NEW(arena, td_conv_dnnl_t);
    if (!k) return td_arena_fail(arena, err);
    k->n_sets = cpus < 1 ? 1 : cpus > TD_CONV_SETS ? TD_CONV_SETS : (uint32_t)cpus;
    if (!(k->sets = TD_NEW_N(arena, td_conv_set_t, k->n_sets))) return td_arena_fail(arena, err);
    k->threads = td_host_threads();
    k->result = d->kind == TD_CONV_BACKWARD_DATA     ? TD_CONV_X
                : d->kind == TD_CONV_BACKWARD_FILTER ? TD_CONV_W
                                                     : TD_CONV_Y;
    const td_conv_array_t *in[2] = {k->result == TD_CONV_X ? &d->y : &d->x, k->result == TD_CONV_W ? &d->y : &d->w};
    bool narrow = in[0]->type == TD_BF16 && in[1]->type == TD_BF16 &&
                  dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_bf16;
    build_t b = {.d = d, .k = k};
    int before = td_conv_dnnl_enter(k->threads);
    bool ok = false, apart = d->fused && (d->scale != 1 || padding_only(d));
    for (int i = 0; i < 4 && !ok; i++) { /* bf16 before f32, in one pass before two */
        b.type = i < 2 ? TD_BF16 : TD_F32, b.finish = i % 2;
        if ((i < 2 && !narrow) || (b.finish && !d->fused) || (!b.finish && apart)) continue;
        b.channels_first = !b.finish && channels_first(d);
        ok = attempt(&b);
    }
    ok = ok && scratch_make(p, &b, scratch) && dnnl_primitive_create(&k->conv, b.pd) == dnnl_success &&
         (!b.reorder || dnnl_primitive_create(&k->reorder, b.reorder) == dnnl_success) && sets_make(&b);
    build_drop(&b);
    td_conv_dnnl_leave(before);
    if (ok) p->dnnl = k;
    else td_conv_dnnl_release(k);
    return TD_OK;
}

void td_conv_dnnl_release(td_conv_dnnl_t *k) {
    if (!k) return;
    for (uint32_t i = 0; i < k->n_sets; i++) {
        for (int m = 0; m < TD_CONV_MEMS; m++)
            if (k->sets[i].mem[m]) dnnl_memory_destroy(k->sets[i].mem[m]);
        if (k->sets[i].stream) dnnl_stream_destroy(k->sets[i].stream);
    }
    if (k->conv) dnnl_primitive_destroy(k->conv);
    if (k->reorder) dnnl_primitive_destroy(k->reorder);
    *k = (td_conv_dnnl_t){0};
}
