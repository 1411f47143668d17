/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/admin.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "contract/day.h"
#include "contract/ledger.h"
#include "daemon/command.h"
#include "daemon/methods.h"
#include "daemon/metrics.h"
#include "daemon/process.h"
#include "runtime/thunk/thunk.h"
#include "schema/admin.pb-c.h"

#define PREFIX "/thunkd.v1.Admin/"

typedef struct admin {
    td_service_t *service;
    td_call_t *call;
    const ProtobufCMessage *request;
    td_arena_t *arena; /* of the answer */
} admin_t;

/* *out: the answer, in the arena; NULL after success: the call has been answered, or will be. */
typedef td_status_t method_fn(const admin_t *a, const ProtobufCMessage **out, td_err_t *err);

typedef struct method {
    const char *name;
    const char *doing; /* NULL: it only looks */
    const ProtobufCMessageDescriptor *request;
    method_fn *fn;
} method_t;

/* A field of a message is a char * that nobody writes to. */
static char *word(const char *s) {
    return (char *)(uintptr_t)s;
}

/* n objects of one size, and an array of pointers to them. */
static void **array(td_arena_t *arena, size_t n, size_t size) {
    char *items = td_arena_array(arena, n, size);
    void **v = td_arena_array(arena, n, sizeof *v);
    for (size_t i = 0; items && v && i < n; i++) v[i] = items + i * size;
    return items ? v : NULL;
}

/* "a,b" to {"a", "b"}. */
static char **split(td_arena_t *arena, const char *text, size_t *out_n) {
    size_t n = *text != 0;
    for (const char *p = text; *p; p++) n += *p == ',';
    char *copy = td_arena_strndup(arena, text, strlen(text)), **v = td_arena_array(arena, n, sizeof *v), *save = NULL;
    if (!copy || !v) return NULL;
    *out_n = 0;
    for (char *w = strtok_r(copy, ",", &save); w && *out_n < n; w = strtok_r(NULL, ",", &save)) v[(*out_n)++] = w;
    return v;
}

static const char *load_mode(td_load_mode_t m) {
    return m == TD_LOAD_STARTUP ? "startup" : m == TD_LOAD_ON_DEMAND ? "on_demand" : "explicit";
}

static bool fill_model(td_arena_t *arena, const td_model_row_t *r, Thunkd__V1__Model *m) {
    thunkd__v1__model__init(m);
    m->labels = split(arena, r->labels, &m->n_labels);
    m->name = word(r->name), m->version = word(r->version), m->state = word(td_model_state_name(r->state));
    m->reason = word(r->reason), m->verdict = word(r->verdict), m->artifact = word(r->artifact);
    m->is_default = r->is_default, m->pinned = r->pinned, m->on_disk = r->on_disk;
    m->load_mode = word(load_mode(r->load));
    m->priority = r->priority, m->leases = r->leases, m->sequences = r->sequences;
    m->charged_bytes = r->bytes, m->done_bytes = r->done, m->total_bytes = r->total;
    m->loads = r->loads, m->evictions = r->evictions, m->idle_ms = r->idle_ms;
    m->leave_day = (uint32_t)r->leave_day;
    return m->labels != NULL;
}

static td_status_t models(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    const Thunkd__V1__ModelsRequest *q = (const void *)a->request;
    Thunkd__V1__ModelsResponse *r = TD_NEW(a->arena, Thunkd__V1__ModelsResponse);
    td_model_row_t *rows = NULL;
    uint32_t n = 0;
    td_status_t s = td_store_list(a->service->store, a->arena, &rows, &n, err);
    if (s != TD_OK) return s;
    Thunkd__V1__Model **v = (Thunkd__V1__Model **)array(a->arena, n, sizeof **v);
    if (!r || !v) return td_arena_fail(a->arena, err);
    thunkd__v1__models_response__init(r);
    r->models = v;
    for (uint32_t i = 0; i < n; i++) {
        if (*q->model && strcmp(q->model, rows[i].name)) continue;
        if (!fill_model(a->arena, &rows[i], v[r->n_models++])) return td_arena_fail(a->arena, err);
    }
    if (*q->model && !r->n_models) return td_fail(err, TD_NOTFOUND, "no model '%s'", q->model);
    *out = &r->base;
    return TD_OK;
}

static const char *domain_name(td_arena_t *arena, uint32_t d) {
    char name[24];
    const char *s = td_arena_printf(arena, "%s", td_domain_name(d, name));
    return s ? s : "";
}

static Thunkd__V1__Process *process(td_arena_t *arena) {
    Thunkd__V1__Process *m = TD_NEW(arena, Thunkd__V1__Process);
    if (!m) return NULL;
    td_process_t p = td_process_read();
    thunkd__v1__process__init(m);
    m->resident = p.resident, m->shared = p.shared;
    m->heap_allocated = p.heap_allocated, m->heap_resident = p.heap_resident, m->heap_metadata = p.heap_metadata;
    return m;
}

static td_status_t budget(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    Thunkd__V1__BudgetResponse *r = TD_NEW(a->arena, Thunkd__V1__BudgetResponse);
    td_budget_t *b = td_store_budget(a->service->store);
    td_budget_row_t *rows = NULL;
    uint32_t n = 0, n_domains = td_budget_domains(b);
    td_status_t s = td_budget_rows(b, a->arena, &rows, &n, err);
    if (s != TD_OK) return s;
    Thunkd__V1__Domain **domains = (Thunkd__V1__Domain **)array(a->arena, n_domains, sizeof **domains);
    Thunkd__V1__Account **accounts = (Thunkd__V1__Account **)array(a->arena, n, sizeof **accounts);
    if (!r || !domains || !accounts) return td_arena_fail(a->arena, err);
    thunkd__v1__budget_response__init(r);
    r->domains = domains;
    r->accounts = accounts;
    r->n_domains = n_domains;
    r->n_accounts = n;
    r->process = process(a->arena);
    for (uint32_t i = 0; i < n_domains; i++) {
        td_budget_totals_t t = td_budget_totals(b, i);
        thunkd__v1__domain__init(domains[i]);
        domains[i]->name = word(domain_name(a->arena, i));
        domains[i]->limit = t.limit, domains[i]->charged = t.charged;
        domains[i]->reserved = t.reserved, domains[i]->peak = t.peak;
    }
    for (uint32_t i = 0; i < n; i++) {
        thunkd__v1__account__init(accounts[i]);
        accounts[i]->domain = word(domain_name(a->arena, rows[i].domain));
        accounts[i]->owner = word(rows[i].owner), accounts[i]->kind = word(td_charge_kind_name(rows[i].kind));
        accounts[i]->bytes = rows[i].bytes;
    }
    *out = &r->base;
    return TD_OK;
}

static td_status_t capabilities(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    Thunkd__V1__CapabilitiesResponse *r = TD_NEW(a->arena, Thunkd__V1__CapabilitiesResponse);
    char day[12];
    size_t n = 0;
    for (const td_ffi_handler_t *h = td_ffi_registry_list(a->service->ffi); h; h = h->next) n++;
    char **kinds = TD_NEW_N(a->arena, char *, td_thunk_kind_count), **targets = TD_NEW_N(a->arena, char *, n);
    char **devices = TD_NEW_N(a->arena, char *, 1);
    char *day_text = td_arena_printf(a->arena, "%s", td_day_text(a->service->contract_day, day));
    if (!r || !kinds || !targets || !devices || !day_text) return td_arena_fail(a->arena, err);
    thunkd__v1__capabilities_response__init(r);
    r->version = word(TD_VERSION);
    r->contract_day = day_text;
    r->newest_release = word(td_ledger_releases[td_ledger_release_count - 1].name);
    r->devices = devices;
    r->n_devices = 1;
    devices[0] = word(a->service->device->ops->name);
    r->thunk_kinds = kinds;
    for (unsigned i = 0; i < td_thunk_kind_count; i++) kinds[r->n_thunk_kinds++] = word(td_thunk_kinds[i].name);
    r->handler_targets = targets;
    for (const td_ffi_handler_t *h = td_ffi_registry_list(a->service->ffi); h; h = h->next)
        targets[r->n_handler_targets++] = word(h->target);
    *out = &r->base;
    return TD_OK;
}

/* The store's commands take numbers; a label is looked up. */
static const char *number_of(const admin_t *a, const char *model, const char *version) {
    td_rows_t rows;
    const char *number = version;
    if (!*version || (*version >= '0' && *version <= '9')) return version;
    bool read = td_rows_read(a->service->store, &rows, NULL) == TD_OK;
    const td_model_row_t *x = read ? td_rows_find(&rows, model, version) : NULL;
    if (x) number = td_arena_strndup(a->arena, x->version, strlen(x->version));
    td_rows_free(&rows);
    return number ? number : version;
}

static td_status_t command(const admin_t *a, td_command_kind_t kind, td_err_t *err) {
    const Thunkd__V1__ModelRequest *q = (const void *)a->request;
    if (!*q->model) return td_fail(err, TD_USAGE, "the request names no model");
    td_command_t c = {.kind = kind, .model = q->model, .version = number_of(a, q->model, q->version)};
    td_command_start(a->service, a->call, &c);
    return TD_OK;
}

static td_status_t load(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    (void)out;
    return command(a, TD_COMMAND_LOAD, err);
}

static td_status_t unload(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    (void)out;
    return command(a, TD_COMMAND_UNLOAD, err);
}

static td_status_t reload(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    (void)out;
    return command(a, TD_COMMAND_RELOAD, err);
}

static td_status_t changed(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    Thunkd__V1__ChangeResponse *r = TD_NEW(a->arena, Thunkd__V1__ChangeResponse);
    if (!r) return td_arena_fail(a->arena, err);
    thunkd__v1__change_response__init(r);
    *out = &r->base;
    return TD_OK;
}

static td_status_t pin(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    const Thunkd__V1__PinRequest *q = (const void *)a->request;
    if (!*q->model) return td_fail(err, TD_USAGE, "the request names no model");
    td_status_t s = td_store_pin(a->service->store, q->model, number_of(a, q->model, q->version), q->pinned, err);
    return s == TD_OK ? changed(a, out, err) : s;
}

static td_status_t rescan(const admin_t *a, const ProtobufCMessage **out, td_err_t *err) {
    td_store_rescan(a->service->store);
    return changed(a, out, err);
}

static const method_t methods[] = {
    {"Models", NULL, &thunkd__v1__models_request__descriptor, models},
    {"Budget", NULL, &thunkd__v1__budget_request__descriptor, budget},
    {"Capabilities", NULL, &thunkd__v1__capabilities_request__descriptor, capabilities},
    {"Load", "loading a model", &thunkd__v1__model_request__descriptor, load},
    {"Unload", "unloading a model", &thunkd__v1__model_request__descriptor, unload},
    {"Reload", "reloading a model", &thunkd__v1__model_request__descriptor, reload},
    {"Pin", "pinning a model", &thunkd__v1__pin_request__descriptor, pin},
    {"Rescan", "a rescan", &thunkd__v1__rescan_request__descriptor, rescan},
};

static td_status_t unpack(const method_t *m, td_span_t body, ProtobufCMessage **out, td_err_t *err) {
    td_span_t in = {0};
    td_status_t s = td_grpc_unframe(body, &in, err);
    if (s != TD_OK) return s;
    if (in.size > TD_LIMIT_ADMIN_BYTES)
        return td_fail(err, TD_LIMIT, "the request is %zu bytes; at most %u are taken", in.size, TD_LIMIT_ADMIN_BYTES);
    *out = protobuf_c_message_unpack(m->request, NULL, in.size, in.data);
    return *out ? TD_OK : td_fail(err, TD_MALFORMED, "the request is not a %s", m->request->name);
}

static void reply(td_call_t *call, const ProtobufCMessage *message) {
    td_pb_t out = td_call_answer(call);
    size_t n = protobuf_c_message_get_packed_size(message);
    td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
    td_pb_reserve(&out, n);
    if (!out.failed) out.size += protobuf_c_message_pack(message, out.data + out.size);
    td_call_reply(call, &out);
}

static void answer(td_service_t *s, td_call_t *call, const method_t *m) {
    td_err_t err = {0};
    td_arena_t arena;
    ProtobufCMessage *request = NULL;
    const ProtobufCMessage *message = NULL;
    td_pb_t body = td_call_take_body(call);
    td_arena_init(&arena, td_alloc_default(), s->max_message_bytes * 4);
    td_status_t r = unpack(m, (td_span_t){body.data, body.size}, &request, &err);
    bool compressed = !request && r == TD_UNSUPPORTED;
    td_pb_free(&body);
    admin_t a = {s, call, request, &arena};
    if (r == TD_OK) r = m->fn(&a, &message, &err);
    if (r != TD_OK) td_call_fail(call, compressed ? TD_GRPC_UNIMPLEMENTED : td_grpc_code(r), err.text);
    else if (message) reply(call, message);
    if (request) protobuf_c_message_free_unpacked(request, NULL);
    td_arena_deinit(&arena);
}

bool td_admin_call(td_service_t *s, td_call_t *call, const char *path) {
    if (strncmp(path, PREFIX, sizeof PREFIX - 1)) return false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const method_t *m = &methods[i];
        if (strcmp(path + sizeof PREFIX - 1, m->name)) continue;
        if (!m->doing || td_service_allowed(s, call, m->doing)) answer(s, call, m);
        return true;
    }
    return false;
}
