/* SPDX-License-Identifier: Apache-2.0 */
#include "store/survey.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/module.h"

/* ---- settings ---- */

static td_status_t read_settings(td_store_t *s, const td_load_order_t *o, td_survey_t *v, td_err_t *err) {
    td_model_yaml_defaults(&v->config);
    const char *model = td_arena_printf(&v->arena, "%s/model.yaml", o->model_dir);
    const char *own = td_file_path(o->dir, o->version, o->files, "model.yaml", &v->arena);
    if (!model || !own) return td_arena_fail(&v->arena, err);
    td_status_t st = td_model_yaml_read(model, true, &v->arena, &v->config, err);
    if (st == TD_OK) st = td_model_yaml_read(own, false, &v->arena, &v->config, err);
    v->concurrency = v->config.concurrency;
    if (!v->concurrency || v->concurrency > s->opts.concurrency) v->concurrency = s->opts.concurrency;
    return st;
}

/* ---- which artifacts ---- */

typedef struct candidate {
    const char *name, *path;
    td_artifact_t *artifact;
    td_module_t *module;
    td_status_t status;
    td_err_t err;
    td_verdict_t verdict;
    bool judged;
} candidate_t;

static void drop(candidate_t *c) {
    if (c->judged) td_verdict_deinit(&c->verdict);
    td_module_close(c->module);
    td_artifact_close(c->artifact);
    c->judged = false;
    c->module = NULL;
    c->artifact = NULL;
}

static bool gone(td_status_t st) { return st == TD_NOMEM || st == TD_CANCELLED || st == TD_LIMIT; }

/* Opens the headers and asks the contract. */
static void look(td_store_t *s, const td_load_order_t *o, const td_survey_t *v, candidate_t *c) {
    const td_alloc_t *alloc = td_heap_alloc(v->heap);
    td_artifact_opts_t opts = {.table = s->payloads, .alloc = alloc, .headers_only = true, .cancel = o->cancel};
    td_contract_policy_t p = s->opts.contract;
    td_err_t module_err = {0};
    c->status = td_artifact_open_path(c->path, &opts, &c->artifact, &c->err);
    if (c->status != TD_OK) return;
    c->status = td_module_open(c->artifact, alloc, &c->module, p.day ? &module_err : &c->err);
    if (!p.day) return;
    p.device = s->opts.device;
    c->status = td_verdict_make(c->artifact, c->module, &module_err, &p, alloc, &c->verdict, &c->err);
    c->judged = c->status == TD_OK;
    if (c->judged) c->status = td_verdict_enforce(&c->verdict, &c->err);
}

/* "<stem>.aot", the device's target "<stem>.<target>.aot", any other target of it; "" for stem: everything. */
static bool named(const char *name, const char *stem) {
    size_t n = strlen(stem);
    return !n || (!strncmp(name, stem, n) && (name[n] == '.'));
}

/* What to try first: what the configuration prefers, then the plain name, then by name. */
static int preference(const td_store_t *s, const char *name, const char *stem) {
    char want[256];
    const char *target = s->opts.target;
    snprintf(want, sizeof want, "%s%s%s.aot", stem, *stem && target ? "." : "", target ? target : "");
    if (target && !strcmp(name, want)) return 0;
    snprintf(want, sizeof want, "%s.aot", *stem ? stem : "model");
    if (!strcmp(name, want)) return 1;
    return 2;
}

static bool better(const candidate_t *a, int pa, const candidate_t *b, int pb) {
    if ((a->status == TD_OK) != (b->status == TD_OK)) return a->status == TD_OK;
    if (pa != pb) return pa < pb;
    return a->judged && b->judged && strcmp(a->verdict.target, b->verdict.target) > 0; /* the newer card's */
}

/* The best of those with this stem stays open in *best. */
static td_status_t choose(td_store_t *s, const td_load_order_t *o, td_survey_t *v, const char *const *names, uint32_t n,
                          const char *stem, candidate_t *best, td_err_t *err) {
    int best_rank = 3;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        if (!named(names[i], stem)) continue;
        candidate_t c = {.name = names[i], .path = td_file_path(o->dir, o->version, o->files, names[i], &v->arena)};
        if (!c.path) return td_arena_fail(&v->arena, err);
        int rank = preference(s, names[i], stem);
        look(s, o, v, &c);
        if (c.status != TD_OK && gone(c.status)) {
            drop(&c);
            if (any) drop(best);
            *err = c.err;
            return c.status;
        }
        if (any && !better(&c, rank, best, best_rank)) {
            drop(&c);
            continue;
        }
        if (any) drop(best);
        *best = c;
        best_rank = rank;
        any = true;
        if (c.status == TD_OK && rank == 0) break;
    }
    if (!any)
        return *stem ? td_fail(err, TD_NOTFOUND, "%s: no artifact %s.aot or %s.<target>.aot", o->dir, stem, stem)
                     : td_fail(err, TD_NOTFOUND, "%s: no artifact (*.aot)", o->dir);
    if (best->status == TD_OK) return TD_OK;
    td_status_t st = best->status;
    *err = best->err;
    bool there = o->files || best->err.text[0] != '/'; /* the path stands in it already */
    drop(best);
    return there ? td_prefix(err, st, "%s/%s", o->dir, best->name) : st;
}

/* ---- what they need ---- */

static td_status_t copy_inputs(td_survey_t *v, const td_module_t *m, td_surveyed_t *a, td_err_t *err) {
    a->n_inputs = m->n_inputs;
    a->inputs = TD_NEW_N(&v->arena, td_io_t, m->n_inputs + 1u);
    a->bound = TD_NEW_N(&v->arena, bool, m->n_inputs + 1u);
    a->states = TD_NEW_N(&v->arena, bool, m->n_inputs + 1u);
    a->bind = TD_NEW_N(&v->arena, td_bind_need_t, m->n_inputs + 1u);
    if (!a->inputs || !a->bound || !a->states || !a->bind) return td_arena_fail(&v->arena, err);
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        const td_module_io_t *io = &m->inputs[i];
        const char *name = io->name ? io->name : "", *path = io->path ? io->path : "";
        a->inputs[i].name = td_arena_strndup(&v->arena, name, strlen(name));
        a->inputs[i].path = td_arena_strndup(&v->arena, path, strlen(path));
        if (!a->inputs[i].name || !a->inputs[i].path) return td_arena_fail(&v->arena, err);
        const td_shape_t *sh = io->shape;
        td_status_t st = td_shape_make(&v->arena, sh->type, sh->rank, sh->dims, sh->minor_to_major, &a->inputs[i].shape,
                                       err);
        if (st != TD_OK) return st;
        for (uint32_t k = 0; k < v->config.n_states; k++) a->states[i] |= td_io_is(&a->inputs[i], i,
                v->config.states[k].input.text);
    }
    return TD_OK;
}

static td_status_t measure(td_store_t *s, td_survey_t *v, const candidate_t *c, td_err_t *err) {
    td_surveyed_t *a = &v->artifacts[v->n++];
    struct stat b;
    *a = (td_surveyed_t){.name = c->name, .path = c->path};
    td_status_t st = copy_inputs(v, c->module, a, err);
    if (st == TD_OK) st = td_module_need_states(c->module, s->opts.device, a->states, &a->need, err);
    if (st != TD_OK) return td_prefix(err, st, "%s", c->name);
    if (stat(c->path, &b) == 0) v->file_bytes += (uint64_t)b.st_size;
    v->names = v->n == 1 ? c->name : td_arena_printf(&v->arena, "%s,%s", v->names, c->name);
    if (!v->names) return td_arena_fail(&v->arena, err);
    if (c->judged && (v->n == 1 || (c->verdict.leaves &&
                                    c->verdict.leaves < v->leave_day))) v->leave_day = c->verdict.leaves;
    if (c->judged && c->verdict.kind != TD_VERDICT_COMPATIBLE && !*v->verdict)
        td_verdict_line(&c->verdict, v->verdict, sizeof v->verdict);
    for (uint32_t i = 0; i < a->n_inputs; i++) a->bind[i] = td_module_bind_need(c->module, s->opts.device, i);
    a->held_constants = td_module_held_bytes(c->module, s->constants);
    td_artifact_payloads(c->artifact, &a->payloads, &a->resident_payloads);
    return TD_OK;
}

static td_status_t survey_artifacts(td_store_t *s, const td_load_order_t *o, td_survey_t *v, td_err_t *err) {
    const char **names;
    uint32_t n, k = v->config.buckets.n ? v->config.buckets.n : 1;
    td_status_t st = td_artifact_names(o->dir, o->version, o->files, &v->arena, &names, &n, err);
    v->artifacts = TD_NEW_N(&v->arena, td_surveyed_t, k);
    if (st == TD_OK && !v->artifacts) st = td_arena_fail(&v->arena, err);
    for (uint32_t i = 0; i < k && st == TD_OK; i++) {
        candidate_t c = {0};
        st = choose(s, o, v, names, n, v->config.buckets.n ? v->config.buckets.items[i].text : "", &c, err);
        if (st != TD_OK && v->config.buckets.n && !gone(st)) td_word_fail(&v->config.buckets.items[i], err, st, "%s",
                                                                          err->text);
        if (st != TD_OK) break;
        st = measure(s, v, &c, err);
        drop(&c);
    }
    return st;
}

static td_status_t survey_weights(td_store_t *s, const td_load_order_t *o, const td_charge_t *charge,
                                  const td_alloc_t *alloc,
                                  td_survey_t *v, td_err_t *err) {
    const char *own = NULL;
    if (o->files) {
        own = td_file_path(o->dir, o->version, o->files, "weights.safetensors", &v->arena);
        if (!own) return td_arena_fail(&v->arena, err);
        if (!strncmp(own, "/dev/null", 9)) own = ""; /* none: not the folder's either */
    }
    td_weights_opts_t w = {.dir = o->dir, .config = &v->config, .files_override = own,
                           .payloads = s->payloads, .constants = s->opts.device->host_memory ? NULL : s->constants,
                           .alloc = alloc, .charge = charge};
    td_status_t st = td_weights_open(&w, &v->weights, err);
    for (uint32_t i = 0; i < v->n && st == TD_OK; i++)
        st = td_weights_match(v->weights, v->artifacts[i].inputs, v->artifacts[i].n_inputs, v->artifacts[i].bound, err);
    return st;
}

td_status_t td_survey_make(td_store_t *s, const td_load_order_t *o, const td_charge_t *weight_charge,
                           const td_alloc_t *weight_alloc, td_survey_t *v, td_err_t *err) {
    *v = (td_survey_t){.names = ""};
    td_status_t st = td_heap_create(&s->survey_draw.charge, &v->heap, err);
    if (st != TD_OK) return st;
    td_arena_init(&v->arena, td_heap_alloc(v->heap), 0);
    st = read_settings(s, o, v, err);
    if (st == TD_OK) st = survey_artifacts(s, o, v, err);
    if (st == TD_OK) st = survey_weights(s, o, weight_charge, weight_alloc, v, err);
    return st;
}

void td_survey_end(td_survey_t *v) {
    td_weights_close(v->weights);
    if (v->heap) td_arena_deinit(&v->arena);
    td_heap_destroy(v->heap);
    *v = (td_survey_t){0};
}

/* On a device whose memory is the host's: all payloads stay. */
static void need_in_place(const td_survey_t *v, bool trust_shared, uint64_t *host) {
    uint64_t weights = 0, resident = 0;
    if (v->weights) td_weights_need(v->weights, &weights, &resident);
    *host += weights - (trust_shared ? resident : 0);
    for (uint32_t i = 0; i < v->n; i++) {
        const td_surveyed_t *a = &v->artifacts[i];
        *host += a->payloads - (trust_shared ? a->resident_payloads : 0);
        *host += a->need.program_bytes + a->need.binding_bytes * v->concurrency;
    }
}

/* What binding its weights takes for a while, and spares each binding. */
static td_bind_need_t bind_need(const td_surveyed_t *a) {
    td_bind_need_t sum = {0};
    for (uint32_t k = 0; k < a->n_inputs; k++) {
        if (!a->bound[k] || a->states[k]) continue; /* both is an error, which the load will tell */
        if (a->bind[k].convert_bytes > sum.convert_bytes) sum.convert_bytes = a->bind[k].convert_bytes;
        sum.spared_bytes += a->bind[k].spared_bytes;
        sum.spared_device_bytes += a->bind[k].spared_device_bytes;
    }
    return sum;
}

/* On any other, constants and weights are there; on the host are the payloads of one artifact, and one converted
 * weight, at a time. */
static void need_apart(const td_survey_t *v, bool trust_shared, uint64_t *host, uint64_t *device) {
    uint64_t weights = 0, resident = 0, passing = 0;
    if (v->weights) td_weights_need(v->weights, &weights, &resident);
    *device += weights - (trust_shared ? resident : 0);
    for (uint32_t i = 0; i < v->n; i++) {
        const td_surveyed_t *a = &v->artifacts[i];
        const td_need_t *n = &a->need;
        td_bind_need_t b = bind_need(a);
        uint64_t payloads = a->payloads - (trust_shared ? a->resident_payloads : 0);
        uint64_t more = payloads > b.convert_bytes ? payloads : b.convert_bytes;
        if (more > passing) passing = more;
        *device += n->program_device_bytes + n->constant_bytes - (trust_shared ? a->held_constants : 0);
        *device += (n->binding_device_bytes - b.spared_device_bytes) * v->concurrency;
        *host += n->program_bytes - n->program_device_bytes;
        *host += (n->binding_bytes - n->binding_device_bytes - b.spared_bytes) * v->concurrency;
    }
    *host += passing;
}

void td_survey_need(const td_store_t *s, const td_survey_t *v, bool trust_shared, uint64_t need[TD_BUDGET_DOMAINS]) {
    uint32_t device = td_store_device_domain(s);
    memset(need, 0, TD_BUDGET_DOMAINS * sizeof *need);
    if (device) need_apart(v, trust_shared, &need[0], &need[device]);
    else need_in_place(v, trust_shared, &need[0]);
}
