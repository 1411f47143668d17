/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the files, and bringing tensors in. Which tensor a parameter gets: weights_match.c. */
#include "store/weights.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "store/weights_in.h"

/* ---- files ---- */

/* Also a link that leads nowhere is there: opening it tells the cause. */
static bool is_there(const char *path) {
    struct stat sb;
    return lstat(path, &sb) == 0;
}

static td_status_t add_default(td_weights_t *w, td_err_t *err) {
    static const char *const names[] = {"weights.safetensors", "model.safetensors.index.json"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = td_arena_printf(&w->arena, "%s/%s", w->dir, names[i]);
        if (!path) return td_arena_fail(&w->arena, err);
        if (!is_there(path)) continue;
        if (found)
            return td_fail(err, TD_MISMATCH, "both %s and %s are there; say in model.yaml which: "
                           "weights: {files: [%s]}", found, names[i], names[i]);
        found = path;
    }
    return found ? td_st_set_add(w->set, found, err) : TD_OK;
}

static td_status_t add_listed(td_weights_t *w, td_err_t *err) {
    const td_words_t *files = &w->config->weight_files;
    for (uint32_t i = 0; i < files->n; i++) {
        const td_word_t *f = &files->items[i];
        if (!td_st_plain_name(f->text))
            return td_word_fail(f, err, TD_USAGE, "weights: \"%.100s\" is no file name in the version's folder",
                                f->text);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(files->items[k].text, f->text))
                return td_word_fail(f, err, TD_USAGE, "weights: file %.100s stands twice", f->text);
        const char *path = td_arena_printf(&w->arena, "%s/%s", w->dir, f->text);
        if (!path) return td_arena_fail(&w->arena, err);
        td_status_t s = td_st_set_add(w->set, path, err);
        if (s != TD_OK) return td_prefix(err, s, "%s:%u", f->file, (unsigned)f->line);
    }
    return TD_OK;
}

static td_status_t add_files(td_weights_t *w, const td_weights_opts_t *o, td_err_t *err) {
    if (o->files_override) return *o->files_override ? td_st_set_add(w->set, o->files_override, err) : TD_OK;
    return w->config->weight_files.given ? add_listed(w, err) : add_default(w, err);
}

static td_status_t make_tables(td_weights_t *w, td_err_t *err) {
    uint32_t n = td_st_set_count(w->set);
    size_t all = 0;
    w->weight_of = TD_NEW_N(&w->arena, uint32_t *, n + 1u);
    if (!w->weight_of) return td_arena_fail(&w->arena, err);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = td_st_count(td_st_set_file(w->set, i));
        all += count; /* 2^10 files of at most 2^32 */
        w->weight_of[i] = TD_NEW_N(&w->arena, uint32_t, count + (size_t)1);
        if (!w->weight_of[i]) return td_arena_fail(&w->arena, err);
    }
    if (all >= UINT32_MAX) return td_fail(err, TD_LIMIT, "%s: %zu tensors", w->dir, all);
    w->weights = TD_NEW_N(&w->arena, td_weight_t *, all + 1);
    w->guards = TD_NEW_N(&w->arena, td_guard_t *, all + 1);
    return w->weights && w->guards ? TD_OK : td_arena_fail(&w->arena, err);
}

td_status_t td_weights_open(const td_weights_opts_t *o, td_weights_t **out, td_err_t *err) {
    const td_alloc_t *alloc = o->alloc ? o->alloc : td_alloc_default();
    static const td_model_yaml_t none;
    td_weights_t *w = alloc->get(alloc->ctx, sizeof *w, 16);
    if (!w) return td_fail(err, TD_NOMEM, "out of memory");
    *w = (td_weights_t){.alloc = alloc, .charge = o->charge, .config = o->config ? o->config : &none,
                        .payloads = o->payloads, .constants = o->constants};
    td_arena_init(&w->arena, alloc, 0);
    pthread_mutex_init(&w->lock, NULL);
    w->dir = td_arena_strndup(&w->arena, o->dir, strlen(o->dir));
    td_status_t s = w->dir ? td_st_set_create(alloc, &w->set, err) : td_arena_fail(&w->arena, err);
    if (s == TD_OK) s = add_files(w, o, err);
    if (s == TD_OK) s = make_tables(w, err);
    if (s == TD_OK) *out = w;
    else td_weights_close(w);
    return s;
}

void td_weights_close(td_weights_t *w) {
    if (!w) return;
    for (uint32_t i = 0; i < w->n_weights; i++) td_payload_release(w->payloads, w->weights[i]->payload);
    td_st_set_destroy(w->set);
    pthread_mutex_destroy(&w->lock);
    td_arena_deinit(&w->arena);
    w->alloc->put(w->alloc->ctx, w, sizeof *w);
}

/* ---- bringing in; all static functions with the lock held ---- */

td_status_t td_weights_use(td_weights_t *w, const td_st_tensor_t *t, uint32_t file, const td_shape_t *shape,
                           td_weight_t **out, td_err_t *err) {
    uint32_t *at = &w->weight_of[file][t - td_st_tensor(td_st_set_file(w->set, file), 0)];
    td_weight_t *x = *at ? w->weights[*at - 1] : TD_NEW(&w->arena, td_weight_t);
    if (!x) return td_arena_fail(&w->arena, err);
    if (!*at) {
        *x = (td_weight_t){.tensor = t, .file = file, .align = 1};
        w->weights[w->n_weights++] = x;
        *at = w->n_weights;
    }
    uint64_t align = td_io_align(shape);
    if (align > x->align) x->align = align; /* before anything is brought in: a dtype has one alignment */
    x->boolean |= shape->type == TD_PRED;
    *out = x;
    return TD_OK;
}

static td_guard_t *guard_of(const td_weights_t *w, const td_weight_t *x) {
    return td_st_guard(td_st_set_file(w->set, x->file));
}

static void unmap(void *guard) {
    td_guard_release(guard);
}

static td_status_t check_boolean(td_span_t b, td_err_t *err) {
    for (size_t i = 0; i < b.size; i++)
        if (b.data[i] > 1) return td_fail(err, TD_MALFORMED, "a boolean is neither 0 nor 1");
    return TD_OK;
}

static td_status_t copy_in(td_weights_t *w, td_span_t bytes, const td_payload_t **out, td_err_t *err) {
    td_payload_builder_t b;
    td_payload_begin(&b, w->payloads, w->charge, bytes.size, true);
    td_status_t s = td_payload_write(&b, bytes.data, bytes.size, err);
    if (s == TD_OK) return td_payload_end(&b, out, err);
    td_payload_drop(&b);
    return s;
}

/* Does the payload lie in a file that was written to since? Its bytes are ours still, but who knows how long. */
static bool in_doubt(const td_payload_t *p, td_span_t bytes) {
    const td_guard_t *g = p->bytes.data == bytes.data ? NULL : td_guard_find(p->bytes.data);
    return g && td_guard_check(g, NULL) != TD_OK;
}

/* Where the file has it not aligned, a run would copy it each time; we copy it once. */
static td_status_t take_in(td_weights_t *w, td_weight_t *x, td_guard_t *g, const td_payload_t **out, td_err_t *err) {
    td_span_t bytes = {x->tensor->data, (size_t)x->tensor->bytes};
    td_status_t s = x->boolean ? check_boolean(bytes, err) : TD_OK;
    if (s != TD_OK) return s;
    if (bytes.size && (uintptr_t)bytes.data % x->align == 0) {
        s = td_payload_adopt(w->payloads, bytes, x->align, w->charge, unmap, td_guard_retain(g), out, err);
        if (s != TD_OK) {
            td_guard_release(g);
            return s;
        }
    } else {
        *out = td_payload_find(w->payloads, bytes, x->align);
    }
    if (*out && !in_doubt(*out, bytes)) return TD_OK;
    td_payload_release(w->payloads, *out);
    *out = NULL;
    return copy_in(w, bytes, out, err);
}

static void note_guard(td_weights_t *w, td_guard_t *g) {
    uint32_t n = atomic_load(&w->n_guards);
    for (uint32_t i = 0; g && i < n; i++)
        if (w->guards[i] == g) return;
    if (!g) return;
    w->guards[n] = g;
    atomic_store(&w->n_guards, n + 1); /* after the entry: others read without the lock */
}

/* Equal tensors of ours count once; the mapping that the bytes lie in may be another file's. */
static void note(td_weights_t *w, const td_weight_t *x) {
    bool twin = false;
    if (x->payload->bytes.data != x->tensor->data)
        for (uint32_t i = 0; !twin && i < w->n_weights; i++)
            twin = w->weights[i] != x && w->weights[i]->payload == x->payload;
    if (!twin) atomic_fetch_add(&w->bytes, x->tensor->bytes);
    note_guard(w, x->payload->bytes.size ? td_guard_find(x->payload->bytes.data) : NULL);
}

/* A tensor that stays where it lies until the device has it. */
static td_status_t look_at(td_weights_t *w, td_weight_t *x, td_err_t *err) {
    const td_st_tensor_t *t = x->tensor;
    td_guard_t *g = guard_of(w, x);
    td_status_t s = td_guard_check(g, err);
    if (s == TD_OK && x->boolean) s = check_boolean((td_span_t){t->data, (size_t)t->bytes}, err);
    if (s != TD_OK) return td_prefix(err, s, "%s: tensor %.100s", td_st_set_path(w->set, x->file), t->name);
    x->checked = true;
    atomic_fetch_add(&w->bytes, t->bytes);
    note_guard(w, g);
    return TD_OK;
}

static td_status_t bring_in(td_weights_t *w, td_weight_t *x, td_err_t *err) {
    const td_st_tensor_t *t = x->tensor;
    if (w->constants) return x->checked ? TD_OK : look_at(w, x, err);
    td_guard_t *g = guard_of(w, x);
    const td_payload_t *p = NULL;
    td_status_t s = td_guard_check(g, err);
    if (s != TD_OK) return s;
    td_guard_want(g, t->data, (size_t)t->bytes);
    s = take_in(w, x, g, &p, err);
    if (s == TD_OK) s = td_guard_check(g, err); /* what was read is what the file has */
    else td_prefix(err, s, "%s: tensor %.100s", td_st_set_path(w->set, x->file), t->name);
    if (s != TD_OK) {
        td_payload_release(w->payloads, p);
        td_guard_drop(g, t->data, (size_t)t->bytes);
        return s;
    }
    if (p->bytes.data != t->data) td_guard_drop(g, t->data, (size_t)t->bytes);
    x->payload = p;
    note(w, x);
    return TD_OK;
}

td_status_t td_weights_bind(td_weights_t *w, const td_io_t *params, uint32_t n, const void **out, td_err_t *err) {
    td_weight_t **of = w->alloc->get(w->alloc->ctx, (n + (size_t)1) * sizeof *of, 16);
    if (!of) return td_fail(err, TD_NOMEM, "out of memory");
    pthread_mutex_lock(&w->lock);
    td_status_t s = td_weights_resolve(w, params, n, of, err);
    for (uint32_t i = 0; s == TD_OK && i < n; i++) {
        if (of[i] && !of[i]->payload && (s = bring_in(w, of[i], err)) != TD_OK)
            td_prefix(err, s, "parameter %u", i);
        else if (of[i] && of[i]->payload && (uintptr_t)of[i]->payload->bytes.data % td_io_align(params[i].shape))
            s = td_fail(err, TD_INTERNAL, "parameter %u: tensor %.100s is not aligned", i, of[i]->tensor->name);
    }
    for (uint32_t i = 0; s == TD_OK && i < n; i++)
        out[i] = !of[i] ? NULL : of[i]->payload ? of[i]->payload->bytes.data : of[i]->tensor->data;
    pthread_mutex_unlock(&w->lock);
    w->alloc->put(w->alloc->ctx, of, (n + (size_t)1) * sizeof *of);
    return s;
}

/* ---- what there is ---- */

static bool seems_resident(td_weights_t *w, const td_weight_t *x) {
    uint64_t n = x->tensor->bytes;
    td_span_t head = {x->tensor->data, n < TD_PAYLOAD_HEAD_BYTES ? (size_t)n : TD_PAYLOAD_HEAD_BYTES};
    if (w->constants) return td_constants_seem_held(w->constants, n, td_payload_head_hash(head));
    return x->payload || td_payload_seems_held(w->payloads, n, head);
}

void td_weights_need(td_weights_t *w, uint64_t *out_bytes, uint64_t *out_resident) {
    uint64_t all = 0, resident = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n_weights; i++) {
        const td_weight_t *x = w->weights[i];
        uint64_t cost = w->constants ? x->tensor->bytes : td_payload_cost(x->tensor->bytes);
        all += cost;
        if (out_resident && seems_resident(w, x)) resident += cost;
    }
    pthread_mutex_unlock(&w->lock);
    if (out_bytes) *out_bytes = all;
    if (out_resident) *out_resident = resident;
}

uint32_t td_weights_payloads(td_weights_t *w, const td_payload_t **out, uint32_t n) {
    uint32_t k = 0;
    if (!w) return 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n_weights; i++) {
        if (!w->weights[i]->payload) continue;
        if (k < n) out[k] = w->weights[i]->payload;
        k++;
    }
    pthread_mutex_unlock(&w->lock);
    return k;
}

uint64_t td_weights_bytes(const td_weights_t *w) {
    return atomic_load(&w->bytes);
}

bool td_weights_damaged(const td_weights_t *w, td_err_t *err) {
    if (!w) return false;
    for (uint32_t i = 0, n = atomic_load(&w->n_guards); i < n; i++)
        if (td_guard_check(w->guards[i], err) != TD_OK) return true;
    return false;
}
