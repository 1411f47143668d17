/* SPDX-License-Identifier: Apache-2.0 */
/* What depends on fixed inputs alone: found by following slots through the program, computed once, kept as
 * constants of the program. Readers of such values are pointed at the constants.
 *
 * A thunk qualifies if it only reads fixed memory and only writes arrays that are not the program's inputs or
 * outputs, and if no later thunk changes part of them or uses them as an operand in place. The memory in which a
 * value used to lie may be written over afterwards: that ends the value, not the constant. */
#include <string.h>

#include "runtime/program_in.h"

typedef struct td_fixer {
    td_program_t *p;
    bool *fixed;       /* by slot: never written, contents known for good */
    td_slot_t *slots;  /* the program's, with room for new ones */
    uint32_t n_slots;
    td_thunk_t *once;
    uint32_t n_once;
    td_err_t *err;
} td_fixer_t;

static bool within(const td_kernel_arg_t *a, const td_kernel_arg_t *of) {
    return a->offset >= of->offset && a->size <= of->size && a->offset - of->offset <= of->size - a->size;
}

static bool pure(const td_thunk_t *t) {
    return !t->skip && !t->n_seqs && t->n_args &&
           (t->kind->lower == td_kernel_thunk_lower || t->kind->enqueue == td_copy_enqueue || t->kind->enqueue == td_convolution_reorder_enqueue ||
            t->kind->enqueue == td_gemm_enqueue);
}

static bool is_io(const td_program_t *p, uint32_t slot) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (p->input_slot[i] == slot) return true;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (p->output_slot[i] == slot) return true;
    return false;
}

enum use { NONE, READ, ENDS, SPOILS };

/* What a thunk, with all that it holds, does to the array. */
static enum use use_of(const td_thunk_t *t, const td_kernel_arg_t *w, bool nested) {
    bool reads = false, writes = false;
    for (uint32_t k = 0; k < t->n_args; k++) {
        const td_kernel_arg_t *a = &t->args[k];
        if (!td_args_overlap(a, w)) continue;
        if (!a->written && !within(a, w)) return SPOILS;
        if (a->written && nested) return SPOILS;
        reads = reads || !a->written, writes = writes || a->written;
    }
    /* an operand updated in place stands there twice, both as written */
    for (uint32_t k = 0; writes && k < t->n_args; k++)
        for (uint32_t j = 0; j < k; j++)
            if (t->args[k].written && t->args[j].written && td_args_overlap(&t->args[k], w) && td_args_overlap(&t->args[k], &t->args[j])) return SPOILS;
    if (reads && writes) return SPOILS;
    for (uint32_t s = 0; s < t->n_seqs; s++)
        for (uint32_t i = 0; i < t->seqs[s].n; i++) {
            enum use u = use_of(&t->seqs[s].v[i], w, true);
            if (u == SPOILS) return SPOILS;
            reads = reads || u == READ;
        }
    return writes ? ENDS : reads ? READ : NONE;
}

static void point(td_thunk_t *t, const td_kernel_arg_t *w, uint32_t slot) {
    for (uint32_t k = 0; k < t->n_args; k++) {
        td_kernel_arg_t *a = &t->args[k];
        if (a->written || !td_args_overlap(a, w)) continue;
        a->allocation = slot, a->offset -= w->offset;
    }
    for (uint32_t s = 0; s < t->n_seqs; s++)
        for (uint32_t i = 0; i < t->seqs[s].n; i++) point(&t->seqs[s].v[i], w, slot);
}

/* Is what the thunk reads of w's memory, nested or not, written whole by a thunk in [first, i)? */
static bool rewritten(const td_seq_t *s, uint32_t first, uint32_t i, const td_thunk_t *t, const td_kernel_arg_t *w) {
    for (uint32_t k = 0; k < t->n_args; k++) {
        bool found = t->args[k].written || !td_args_overlap(&t->args[k], w);
        for (uint32_t j = first; j < i && !found; j++)
            for (uint32_t x = 0; x < s->v[j].n_args && !found && !s->v[j].skip; x++)
                found = s->v[j].args[x].written && td_args_overlap(&s->v[j].args[x], &t->args[k]) && within(&t->args[k], &s->v[j].args[x]);
        if (!found) return false;
    }
    for (uint32_t q = 0; q < t->n_seqs; q++)
        for (uint32_t n = 0; n < t->seqs[q].n; n++)
            if (!rewritten(s, first, i, &t->seqs[q].v[n], w)) return false;
    return true;
}

/* How far the value reaches: one past its last possible reader; 0 if it cannot be made a constant. From its end
 * on, nothing may read of its memory what was not written since. */
static uint32_t reach(const td_fixer_t *f, uint32_t from, const td_kernel_arg_t *w) {
    const td_seq_t *s = &f->p->thunks;
    uint32_t end = s->n;
    for (uint32_t i = from + 1; i < s->n; i++) {
        if (s->v[i].skip) continue;
        if (end < s->n) {
            if (!rewritten(s, end, i, &s->v[i], w)) return 0;
            continue;
        }
        enum use u = use_of(&s->v[i], w, false);
        if (u == SPOILS) return 0;
        if (u == ENDS) end = i;
    }
    return end;
}

static bool qualifies(const td_fixer_t *f, uint32_t i) {
    const td_thunk_t *t = &f->p->thunks.v[i];
    uint64_t read = 0, made = 0;
    if (!pure(t)) return false;
    for (uint32_t k = 0; k < t->n_args; k++) {
        const td_kernel_arg_t *a = &t->args[k];
        if (!a->written) {
            if (!f->fixed[a->allocation]) return false;
            read += a->size;
            continue;
        }
        if (!a->size || is_io(f->p, a->allocation) || f->fixed[a->allocation] || !reach(f, i, a)) return false;
        for (uint32_t j = 0; j < k; j++)
            if (td_args_overlap(a, &t->args[j])) return false;
        made += a->size;
    }
    return read && made && made / 4 <= read; /* spreading a scalar out is not worth the memory */
}

static td_status_t make_constant(td_fixer_t *f, uint32_t i) {
    td_program_t *p = f->p;
    td_thunk_t *t = &p->thunks.v[i], *once = &f->once[f->n_once++];
    *once = *t;
    once->args = TD_NEW_N(&p->arena, td_kernel_arg_t, t->n_args);
    if (!once->args) return td_arena_fail(&p->arena, f->err);
    memcpy(once->args, t->args, t->n_args * sizeof *t->args);
    for (uint32_t k = 0; k < t->n_args; k++) {
        if (!t->args[k].written) continue;
        const td_kernel_arg_t w = t->args[k];
        uint32_t slot = f->n_slots++, end = reach(f, i, &w);
        f->slots[slot] = (td_slot_t){.size = w.size};
        f->fixed[slot] = true;
        for (uint32_t j = i + 1; j < end; j++) point(&p->thunks.v[j], &w, slot);
        once->args[k].allocation = slot, once->args[k].offset = 0;
    }
    t->skip = true;
    t->kernel = NULL; /* released with `once` */
    return TD_OK;
}

/* Filters and the like that a kernel reads in a form of its own. */
static td_status_t find_packs(td_fixer_t *f) {
    td_program_t *p = f->p;
    const td_device_ops_t *ops = p->dev->ops;
    if (!ops->pack_bytes) return TD_OK;
    p->packs = TD_NEW_N(&p->arena, td_pack_t, p->thunks.n);
    if (!p->packs) return td_arena_fail(&p->arena, f->err);
    for (uint32_t i = 0; i < p->thunks.n; i++) {
        td_thunk_t *t = &p->thunks.v[i];
        for (uint32_t k = 0; t->kernel && !t->skip && k < t->n_args; k++) {
            uint64_t bytes = t->args[k].written || !f->fixed[t->args[k].allocation] ? 0 : ops->pack_bytes(t->kernel, k);
            if (!bytes) continue;
            uint32_t slot = f->n_slots++;
            f->slots[slot] = (td_slot_t){.size = bytes};
            p->packs[p->n_packs++] = (td_pack_t){t->kernel, k, t->args[k], slot};
            t->args[k].allocation = slot, t->args[k].offset = 0, t->args[k].size = bytes;
            break;
        }
    }
    return TD_OK;
}

static bool reads_slot(const td_seq_t *s, uint32_t slot) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        for (uint32_t k = 0; !t->skip && k < t->n_args; k++)
            if (t->args[k].allocation == slot) return true;
        for (uint32_t j = 0; !t->skip && j < t->n_seqs; j++)
            if (reads_slot(&t->seqs[j], slot)) return true;
    }
    return false;
}

static td_status_t find(td_program_t *p, const bool *fixed, td_err_t *err) {
    uint32_t room = p->n_slots + p->thunks.n * (p->max_args + 1);
    td_fixer_t f = {.p = p, .err = err, .n_slots = p->n_slots};
    f.fixed = TD_NEW_N(&p->arena, bool, room), f.slots = TD_NEW_N(&p->arena, td_slot_t, room);
    f.once = TD_NEW_N(&p->arena, td_thunk_t, p->thunks.n);
    if (!f.fixed || !f.slots || !f.once) return td_arena_fail(&p->arena, err);
    memcpy(f.slots, p->slots, p->n_slots * sizeof *p->slots);
    for (uint32_t i = 0; i < p->n_slots; i++) f.fixed[i] = p->slots[i].constant != NULL;
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (fixed[i] && p->input_direct[i] && p->input_slot[i] != UINT32_MAX) f.fixed[p->input_slot[i]] = true;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < p->thunks.n && !st; i++)
        if (qualifies(&f, i)) st = make_constant(&f, i);
    if (!st) st = find_packs(&f);
    p->once = (td_seq_t){f.once, f.n_once};
    p->slots = f.slots, p->first_made = p->n_slots, p->n_slots = f.n_slots;
    return st;
}

static td_status_t compute(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err) {
    td_binding_t *b = NULL;
    td_status_t st = TD_OK;
    for (uint32_t i = p->first_made; i < p->n_slots && !st; i++) {
        st = td_device_take(p->dev, p->charge, p->slots[i].size, "values computed from weights", &p->slots[i].constant,
                            err);
        if (!st) p->made_bytes += p->slots[i].size;
    }
    if (!st) st = td_binding_create(p, p->alloc, &b, err);
    if (!st) st = td_binding_run_once(b, inputs, fixed, err);
    td_binding_destroy(b);
    for (uint32_t i = p->first_made; i < p->n_slots && !st; i++) { /* needed only on the way */
        if (reads_slot(&p->thunks, i) || !p->slots[i].constant) continue;
        td_device_give(p->dev, p->charge, p->slots[i].constant, p->slots[i].size);
        p->slots[i].constant = NULL;
        p->made_bytes -= p->slots[i].size;
    }
    return st;
}

td_status_t td_fixed_compute(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err) {
    td_status_t st = find(p, fixed, err);
    return st || p->first_made == p->n_slots ? st : compute(p, inputs, fixed, err);
}
