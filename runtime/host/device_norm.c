/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm over rows: y = (x - mean) / sqrt(var + epsilon) * scale + bias, and its gradients, computed in f64
 * from f32 rows and rounded once. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/library.h"

typedef struct norm {
    td_norm_desc_t d;
    uint64_t scale_at, bias_at, row_at, dy_at, sums_at;
} norm_t;

static void one_row(const norm_t *n, const float *scale, const float *bias, float *x, float *out_mean,
                    float *out_factor) {
    double sum = 0, sq = 0, count = (double)n->d.cols;
    for (int64_t j = 0; j < n->d.cols; j++) sum += (double)x[j];
    double mean = sum / count;
    for (int64_t j = 0; j < n->d.cols; j++) sq += ((double)x[j] - mean) * ((double)x[j] - mean);
    double factor = 1 / sqrt(sq / count + n->d.epsilon);
    for (int64_t j = 0; j < n->d.cols; j++)
        x[j] = (float)(((double)x[j] - mean) * factor * (double)scale[j] + (double)bias[j]);
    *out_mean = (float)mean;
    *out_factor = (float)factor;
}

static const char *line(const void *base, td_type_t type, int64_t i, int64_t cols) {
    return (const char *)base + (size_t)(i * cols) * td_type_bytes(type);
}

static td_status_t forward(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    const norm_t *n = k->library;
    const td_norm_desc_t *d = &n->d;
    char *s = scratch;
    float *scale = (float *)(void *)(s + n->scale_at), *bias = (float *)(void *)(s + n->bias_at),
          *row = (float *)(void *)(s + n->row_at);
    size_t cols = (size_t)d->cols;
    td_convert_array(d->scale, bufs[1], TD_F32, scale, cols);
    if (d->has_bias) td_convert_array(d->bias, bufs[2], TD_F32, bias, cols);
    else memset(bias, 0, cols * sizeof *bias);
    for (int64_t i = 0; i < d->rows; i++) {
        float mean, factor;
        td_convert_array(d->x, line(bufs[0], d->x, i, d->cols), TD_F32, row, cols);
        one_row(n, scale, bias, row, &mean, &factor);
        td_convert_array(TD_F32, row, d->y, (char *)bufs[3] + (size_t)i * cols * td_type_bytes(d->y), cols);
        if (d->training) ((float *)bufs[4])[i] = mean, ((float *)bufs[5])[i] = factor;
    }
    return TD_OK;
}

/* With h = (x - mean) * factor and g = dy * scale: dx = factor * (g - mean(g) - h * mean(g * h)) per row,
 * dscale = sum of dy * h and dbias = sum of dy over the rows. x becomes dx. */
static void gradient_row(const norm_t *n, const float *scale, float *x, const float *dy, double mean, double factor,
                         double *dscale, double *dbias) {
    double g_sum = 0, gh_sum = 0, count = (double)n->d.cols;
    for (int64_t j = 0; j < n->d.cols; j++) {
        double h = ((double)x[j] - mean) * factor, g = (double)dy[j] * (double)scale[j];
        g_sum += g, gh_sum += g * h;
        dscale[j] += (double)dy[j] * h, dbias[j] += (double)dy[j];
    }
    for (int64_t j = 0; j < n->d.cols; j++) {
        double h = ((double)x[j] - mean) * factor, g = (double)dy[j] * (double)scale[j];
        x[j] = (float)(factor * (g - g_sum / count - h * (gh_sum / count)));
    }
}

static td_status_t backward(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    const norm_t *n = k->library;
    const td_norm_desc_t *d = &n->d;
    char *s = scratch;
    float *scale = (float *)(void *)(s + n->scale_at), *row = (float *)(void *)(s + n->row_at),
          *dy = (float *)(void *)(s + n->dy_at);
    double *dscale = (double *)(void *)(s + n->sums_at), *dbias = dscale + d->cols;
    size_t cols = (size_t)d->cols;
    td_convert_array(d->scale, bufs[1], TD_F32, scale, cols);
    memset(dscale, 0, 2 * cols * sizeof *dscale);
    for (int64_t i = 0; i < d->rows; i++) {
        td_convert_array(d->x, line(bufs[0], d->x, i, d->cols), TD_F32, row, cols);
        td_convert_array(d->dy, line(bufs[2], d->dy, i, d->cols), TD_F32, dy, cols);
        gradient_row(n, scale, row, dy, (double)((const float *)bufs[3])[i], (double)((const float *)bufs[4])[i],
                     dscale, dbias);
        td_convert_array(TD_F32, row, d->y, (char *)bufs[5] + (size_t)i * cols * td_type_bytes(d->y), cols);
    }
    td_convert_array(TD_F64, dscale, d->dscale, bufs[6], cols);
    td_convert_array(TD_F64, dbias, d->dbias, bufs[7], cols);
    return TD_OK;
}

td_status_t td_host_norm_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    const td_norm_desc_t *d = desc;
    (void)dev;
    const td_type_t types[7] = {d->x, d->scale, d->bias, d->y, d->dy, d->dscale, d->dbias};
    for (int i = 0; i < (d->backward ? 7 : 4); i++)
        if (!td_type_is_float(types[i]) || types[i] == TD_F64 || td_type_bits(types[i]) < 8)
            return td_fail(err, TD_UNSUPPORTED, "norm of element type %s", td_type_name(types[i]));
    if (d->rows < 0 || d->cols < 0 || d->cols > (1ll << 40))
        return td_fail(err, TD_LIMIT, "norm of %lld columns", (long long)d->cols);
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    norm_t *n = TD_NEW(arena, norm_t);
    if (!k || !n) return td_arena_fail(arena, err);
    uint64_t bytes = td_align_up((size_t)d->cols * 4, 64);
    *n = (norm_t){
        .d = *d, .scale_at = 0, .bias_at = bytes, .row_at = 2 * bytes, .dy_at = 3 * bytes, .sums_at = 4 * bytes};
    k->library = n;
    k->run = d->backward ? backward : forward;
    *out = k;
    *out_scratch = d->backward ? 8 * bytes : 3 * bytes;
    return TD_OK;
}
