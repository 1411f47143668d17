/* SPDX-License-Identifier: Apache-2.0 */
/* A payload from pieces. The story: the first bytes are kept in the builder; they name a candidate in the table, and
 * the stream is compared with it. When they differ, the next candidate that has the same bytes so far is tried; when
 * there is none, memory is taken, what was equal is copied from the candidate, and from then on the stream is copied
 * and hashed. At the end a payload of equal content that came in meanwhile wins over ours. */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/payload_in.h"

enum {
    CANDIDATES = 16,      /* of equal size and first bytes that are tried at a difference */
    CHARGE_STEP = 1 << 20, /* of memory whose size is not known before */
    PAGE = 4096,
    PAGED_AHEAD = 4 << 20, /* of that size on, another thread zeroes the pages: a third of the time of a load, */
    AHEAD = 32 << 20,      /* so far before the writer, */
    AHEAD_STEP = 8 << 20,  /* so much at a time */
    OWN = 0, /* a twin in the table's own memory: bytes of a mapped file may change under us */
};

void td_payload_begin(td_payload_builder_t *b, td_payload_table_t *t, const td_charge_t *charge, uint64_t size,
                      bool exact) {
    b->table = t;
    b->charge = charge ? charge : t->charge;
    b->max = size;
    b->done = 0;
    b->exact = exact;
    b->twin = NULL;
    b->data = NULL;
    b->mapped = b->charged = 0;
    b->has_pager = false;
}

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Not further ahead than AHEAD: the file may end before the payload does. A kernel that cannot do this brings the
 * pages in one by one, when they are written. */
static void *page_main(void *arg) {
    td_payload_builder_t *b = arg;
    for (uint64_t at = 0; at < b->mapped; at += AHEAD_STEP) {
        uint64_t reached, n = b->mapped - at < AHEAD_STEP ? b->mapped - at : AHEAD_STEP;
        while ((reached = atomic_load(&b->reached)) < at && at - reached > AHEAD) usleep(100);
        if (reached == UINT64_MAX || madvise(b->data + at, (size_t)n, MADV_POPULATE_WRITE)) break;
    }
    return NULL;
}

static void start_pager(td_payload_builder_t *b) {
    sigset_t all, old;
    if (b->mapped < PAGED_AHEAD) return;
    atomic_store(&b->reached, b->done);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    b->has_pager = !pthread_create(&b->pager, NULL, page_main, b);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void end_pager(td_payload_builder_t *b) {
    atomic_store(&b->reached, UINT64_MAX);
    if (b->has_pager) pthread_join(b->pager, NULL);
    b->has_pager = false;
}

static void free_own(td_payload_builder_t *b) {
    end_pager(b);
    if (b->data) td_payload_memory_free(b->table, b->charge, b->data, b->max, b->mapped, b->charged);
    b->data = NULL;
    b->mapped = b->charged = 0;
}

void td_payload_drop(td_payload_builder_t *b) {
    if (!b->table) return;
    free_own(b);
    td_payload_release(b->table, b->twin);
    b->twin = NULL;
    b->table = NULL;
}

static td_span_t head_of(const td_payload_builder_t *b) {
    return (td_span_t){b->head, b->done < sizeof b->head ? (size_t)b->done : sizeof b->head};
}

/* Memory of an unknown size is reserved whole, in addresses only, and charged step by step. */
static td_status_t charge_up_to(td_payload_builder_t *b, uint64_t done, td_err_t *err) {
    if (done <= b->charged) return TD_OK;
    uint64_t want = (done - b->charged + CHARGE_STEP - 1) & ~(uint64_t)(CHARGE_STEP - 1);
    if (want > b->mapped - b->charged) want = b->mapped - b->charged;
    if (!td_charge_take(b->charge, want))
        return td_fail(err, TD_LIMIT, "the budget has no %" PRIu64 " bytes more for a payload", want);
    b->charged += want;
    return TD_OK;
}

static td_status_t reserve(td_payload_builder_t *b, td_err_t *err) {
    if (b->max > SIZE_MAX / 2) return td_fail(err, TD_LIMIT, "payload of %" PRIu64 " bytes", b->max);
    b->mapped = (b->max + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    void *p = mmap(NULL, (size_t)b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        b->mapped = 0;
        return td_fail(err, TD_NOMEM, "out of memory for a payload of at most %" PRIu64 " bytes", b->max);
    }
    b->data = p;
    return TD_OK;
}

/* Own memory, holding what has come so far. */
static td_status_t start_own(td_payload_builder_t *b, td_err_t *err) {
    td_status_t s = b->exact ? td_payload_memory(b->table, b->charge, b->max, &b->data, &b->mapped, &b->charged, err)
                             : reserve(b, err);
    if (s == TD_OK && !b->exact) s = charge_up_to(b, b->done, err);
    if (s != TD_OK) return s;
    if (b->exact) start_pager(b);
    const uint8_t *from = b->twin ? b->twin->bytes.data : b->head;
    td_hasher_init(&b->hash);
    for (uint64_t at = 0, k; at < b->done; at += k) { /* in steps that stay in the cache between copy and hash */
        k = b->done - at < 65536 ? b->done - at : 65536;
        memcpy(b->data + at, from + at, (size_t)k);
        td_hasher_add(&b->hash, b->data + at, (size_t)k);
    }
    td_payload_release(b->table, b->twin);
    b->twin = NULL;
    return TD_OK;
}

static bool fits(const td_payload_t *p, uint64_t done, const void *data, size_t size) {
    return size <= p->bytes.size - done && memcmp(p->bytes.data + done, data, size) == 0;
}

/* The twin is none any more. Another payload that began like it may go on like the stream. */
static void next_twin(td_payload_builder_t *b, const void *data, size_t size) {
    const td_payload_t *was = td_payload_retain(b->table, b->twin), *p = b->twin;
    b->twin = NULL;
    for (unsigned i = 0; i < CANDIDATES && p; i++) {
        p = td_payload_candidate(b->table, p, b->exact ? b->max : UINT64_MAX, head_of(b), OWN);
        if (!p || p->bytes.size < b->done || !fits(p, b->done, data, size)) continue;
        if (memcmp(p->bytes.data, was->bytes.data, (size_t)b->done) != 0) continue;
        b->twin = p;
        td_payload_release(b->table, was);
        return;
    }
    td_payload_release(b->table, p);
    b->twin = was; /* its bytes are still needed */
}

static td_status_t append(td_payload_builder_t *b, const void *data, size_t size, td_err_t *err) {
    td_status_t s = TD_OK;
    if (!b->data && b->twin && !fits(b->twin, b->done, data, size)) next_twin(b, data, size);
    if (!b->data && !(b->twin && fits(b->twin, b->done, data, size))) s = start_own(b, err);
    if (s == TD_OK && b->data && !b->exact) s = charge_up_to(b, b->done + size, err);
    if (s != TD_OK) return s;
    if (b->data) {
        memcpy(b->data + b->done, data, size);
        td_hasher_add(&b->hash, data, size);
    }
    b->done += size;
    if (b->has_pager) atomic_store_explicit(&b->reached, b->done, memory_order_relaxed);
    return TD_OK;
}

td_status_t td_payload_write(td_payload_builder_t *b, const void *data, size_t size, td_err_t *err) {
    const uint8_t *p = data;
    if (size > b->max - b->done)
        return td_fail(err, TD_MALFORMED, "%zu bytes more for a payload of %" PRIu64 " that has %" PRIu64, size, b->max,
                       b->done);
    if (b->done < sizeof b->head) {
        size_t k = sizeof b->head - (size_t)b->done < size ? sizeof b->head - (size_t)b->done : size;
        memcpy(b->head + b->done, p, k);
        b->done += k;
        p += k, size -= k;
        if (b->done == sizeof b->head)
            b->twin = td_payload_candidate(b->table, NULL, b->exact ? b->max : UINT64_MAX, head_of(b), OWN);
    }
    return size ? append(b, p, size, err) : TD_OK;
}

/* Gives back what was reserved and not used; a small one moves to the allocator's memory. */
static td_status_t trim(td_payload_builder_t *b, td_err_t *err) {
    uint64_t cost = td_payload_cost(b->done);
    if (b->exact) return TD_OK;
    if (b->done < TD_PAYLOAD_MAP_BYTES) {
        uint8_t *data = NULL;
        uint64_t mapped = 0, charged = 0;
        td_status_t s = td_payload_memory(b->table, b->charge, b->done, &data, &mapped, &charged, err);
        if (s != TD_OK) return s;
        memcpy(data, b->data, (size_t)b->done);
        free_own(b);
        b->data = data;
        b->charged = charged;
    } else {
        if (b->mapped > cost) munmap(b->data + cost, (size_t)(b->mapped - cost));
        if (b->charged > cost) td_charge_give(b->charge, b->charged - cost);
        b->mapped = b->charged = cost;
    }
    b->max = b->done; /* the size by which it is freed */
    return TD_OK;
}

td_status_t td_payload_end(td_payload_builder_t *b, const td_payload_t **out_payload, td_err_t *err) {
    td_status_t s = TD_OK;
    bool taken = false;
    if (b->exact && b->done != b->max)
        s = td_fail(err, TD_MALFORMED, "payload of %" PRIu64 " bytes ends after %" PRIu64, b->max, b->done);
    if (s == TD_OK && b->done < TD_PAYLOAD_HEAD_BYTES) { /* all of it is in the head */
        b->max = b->done;
        b->exact = true;
        b->twin = td_payload_candidate(b->table, NULL, b->done, head_of(b), OWN);
    }
    if (s == TD_OK && b->twin && b->twin->bytes.size == b->done) {
        *out_payload = b->twin;
        b->twin = NULL;
    } else if (s == TD_OK) {
        if (!b->data) s = start_own(b, err);
        end_pager(b);
        if (s == TD_OK) s = trim(b, err);
        if (s == TD_OK)
            s = td_payload_settle(b->table, (td_span_t){b->data, (size_t)b->done}, td_hasher_end(&b->hash), b->mapped,
                                  b->charged, b->charge, &taken, out_payload, err);
        if (taken) b->data = NULL;
    }
    td_payload_drop(b);
    return s;
}

td_status_t td_payload_intern(td_payload_table_t *t, td_span_t bytes, const td_payload_t **out_payload, td_err_t *err) {
    td_payload_builder_t b;
    td_payload_begin(&b, t, NULL, bytes.size, true);
    td_status_t s = bytes.size ? td_payload_write(&b, bytes.data, bytes.size, err) : TD_OK;
    if (s == TD_OK) return td_payload_end(&b, out_payload, err);
    td_payload_drop(&b);
    return s;
}
