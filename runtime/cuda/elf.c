/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/elf.h"

#include <elf.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"

enum { MACHINE_CUDA = 190, ABI_CUDA_13 = 8 };
enum { FAT_MAGIC = 0xba55ed50, FAT_HEADER = 16 };
enum { FMT_BYTES = 4, ATTR_REQNTID = 0x10, ATTR_KPARAM_INFO = 0x17, ATTR_CBANK_PARAM_SIZE = 0x19 };

typedef struct reader {
    td_span_t image;
    const Elf64_Shdr *sections; /* a copy: images may lie at any address */
    uint32_t n;
    td_span_t names;
    td_arena_t *arena;
    td_err_t *err;
} reader_t;

static td_status_t at(const reader_t *r, const char *what, uint64_t offset, uint64_t size) {
    if (td_range_ok(offset, size, r->image.size)) return TD_OK;
    return td_fail_at(r->err, TD_MALFORMED, offset,
                      "%s at %llu of %llu bytes passes the end of the image, which has %zu",
                      what, (unsigned long long)offset, (unsigned long long)size, r->image.size);
}

/* The string at an offset of a table, whose end it may not pass; NULL if it does. */
static const char *string(td_span_t table, uint64_t offset) {
    if (offset >= table.size || !memchr(table.data + offset, 0, table.size - offset)) return NULL;
    return (const char *)table.data + offset;
}

static td_span_t content(const reader_t *r, const Elf64_Shdr *s) {
    if (s->sh_type == SHT_NOBITS || !s->sh_size) return (td_span_t){r->image.data, 0};
    return (td_span_t){r->image.data + s->sh_offset, s->sh_size};
}

static const char *section_name(const reader_t *r, uint32_t i) { return string(r->names, r->sections[i].sh_name); }

static td_status_t programs(const reader_t *r, const Elf64_Ehdr *h) {
    if (!h->e_phnum) return TD_OK;
    if (h->e_phentsize != sizeof(Elf64_Phdr))
        return td_fail(r->err, TD_MALFORMED, "program headers of %u bytes, not %zu", h->e_phentsize,
                       sizeof(Elf64_Phdr));
    td_status_t st = at(r, "the program header table", h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr));
    for (uint32_t i = 0; i < h->e_phnum && !st; i++) {
        Elf64_Phdr p;
        memcpy(&p, r->image.data + h->e_phoff + i * sizeof p, sizeof p);
        st = at(r, "a segment", p.p_offset, p.p_filesz);
    }
    return st;
}

static td_status_t sections(reader_t *r, const Elf64_Ehdr *h) {
    if (h->e_shentsize != sizeof(Elf64_Shdr))
        return td_fail(r->err, TD_MALFORMED, "section headers of %u bytes, not %zu", h->e_shentsize,
                       sizeof(Elf64_Shdr));
    td_status_t st = at(r, "the section header table", h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr));
    if (st) return st;
    if (h->e_shstrndx >= h->e_shnum)
        return td_fail(r->err, TD_MALFORMED, "section names are in section %u of %u", h->e_shstrndx, h->e_shnum);
    Elf64_Shdr *v = TD_NEW_N(r->arena, Elf64_Shdr, h->e_shnum);
    if (!v) return td_arena_fail(r->arena, r->err);
    memcpy(v, r->image.data + h->e_shoff, h->e_shnum * sizeof *v);
    r->sections = v;
    r->n = h->e_shnum;
    for (uint32_t i = 1; i < r->n; i++)
        if (v[i].sh_type != SHT_NOBITS && (st = at(r, "a section", v[i].sh_offset, v[i].sh_size)))
            return td_prefix(r->err, st, "sections[%u]", i);
    r->names = content(r, &v[h->e_shstrndx]);
    for (uint32_t i = 0; i < r->n; i++)
        if (!section_name(r, i)) return td_fail(r->err, TD_MALFORMED,
                                                "sections[%u]: its name passes the end of the names", i);
    return TD_OK;
}

/* "-arch sm_90a" in the command line that the assembler left in a note. */
static void target_of_note(td_span_t s, td_cubin_t *out) {
    static const char key[] = "-arch sm_";
    const char *p = s.size ? memmem(s.data, s.size, key, sizeof key - 1) : NULL;
    const char *end = (const char *)s.data + s.size;
    uint32_t sm = 0;
    if (!p) return;
    for (p += sizeof key - 1; p < end && *p >= '0' && *p <= '9' && sm < 10000; p++) sm = sm * 10 + (uint32_t)(*p - '0');
    if (sm != out->sm || p == end) return;
    out->feature = *p == 'a' || *p == 'f' ? *p : 0;
}

static void target(const reader_t *r, const Elf64_Ehdr *h, td_cubin_t *out) {
    bool newer = h->e_ident[EI_ABIVERSION] >= ABI_CUDA_13;
    out->sm = newer ? h->e_flags >> 8 & 0xff : h->e_flags & 0xff;
    if (h->e_flags & (newer ? 0x8 : 0x800)) out->feature = 'a';
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(section_name(r, i), ".note.nv.tkinfo")) target_of_note(content(r, &r->sections[i]), out);
}

/* ---- symbols ---- */
static bool is_state(const reader_t *r, const Elf64_Sym *s, const char *name) {
    if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT || s->st_shndx == SHN_UNDEF || s->st_shndx >= r->n) return false;
    /* Variables of XLA's constants are filled once; those of the math library are tables. */
    if (!strncmp(name, "buffer_for_", 11) || !strncmp(name, "__cudart_", 9) || !strncmp(name, "__nv_", 5)) return false;
    return !strncmp(section_name(r, s->st_shndx), ".nv.global", 10);
}

static td_status_t symbols(const reader_t *r, td_cubin_t *out) {
    for (uint32_t i = 0; i < r->n; i++) {
        const Elf64_Shdr *s = &r->sections[i];
        td_span_t v = content(r, s);
        if (s->sh_type != SHT_SYMTAB) continue;
        if (s->sh_entsize != sizeof(Elf64_Sym) || v.size % sizeof(Elf64_Sym) || s->sh_link >= r->n)
            return td_fail(r->err, TD_MALFORMED,
                           "symbol table of %zu bytes, entries of %llu, names in section %u of %u",
                           v.size, (unsigned long long)s->sh_entsize, s->sh_link, r->n);
        td_span_t names = content(r, &r->sections[s->sh_link]);
        for (size_t k = 0; k < v.size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym y;
            memcpy(&y, v.data + k * sizeof y, sizeof y);
            const char *name = y.st_name ? string(names, y.st_name) : "";
            if (!name) return td_fail(r->err, TD_MALFORMED, "symbols[%zu]: its name passes the end of the names", k);
            if (y.st_shndx < SHN_LORESERVE && y.st_shndx >= r->n)
                return td_fail(r->err, TD_MALFORMED, "symbols[%zu] '%s' is in section %u of %u", k, name, y.st_shndx,
                               r->n);
            if (y.st_shndx != SHN_UNDEF && y.st_shndx < r->n && !td_range_ok(y.st_value, y.st_size,
                                                                             r->sections[y.st_shndx].sh_size))
                return td_fail(r->err, TD_MALFORMED, "symbols[%zu] '%s': %llu bytes at %llu of a section of %llu", k,
                               name,
                               (unsigned long long)y.st_size, (unsigned long long)y.st_value,
                               (unsigned long long)r->sections[y.st_shndx].sh_size);
            if (is_state(r, &y, name)) out->state = true;
        }
    }
    return TD_OK;
}

/* ---- .nv.info.KERNEL: records {format, attribute, size or value, bytes} ---- */
static uint32_t word(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

typedef struct record {
    uint8_t format, attribute;
    uint16_t value;
    const uint8_t *bytes; /* value of them, when format says so */
} record_t;

/* The record at *p, which moves on; false at the end. */
static td_status_t next(const reader_t *r, td_span_t s, size_t *p, record_t *out, bool *more) {
    *more = false;
    if (*p == s.size) return TD_OK;
    if (s.size - *p < 4) return td_fail(r->err, TD_MALFORMED, "a record of %zu bytes at its end", s.size - *p);
    const uint8_t *b = s.data + *p;
    *out = (record_t){b[0], b[1], (uint16_t)(b[2] | b[3] << 8), b + 4};
    *p += 4;
    if (out->format == FMT_BYTES) {
        if (s.size - *p < out->value)
            return td_fail(r->err, TD_MALFORMED, "attribute %#x has %u bytes, %zu are left", out->attribute, out->value,
                           s.size - *p);
        *p += out->value;
    }
    *more = true;
    return TD_OK;
}

static td_status_t param(const reader_t *r, const record_t *x, td_cubin_kernel_t *k, td_cubin_param_t *v, uint32_t n) {
    if (x->value < 12) return td_fail(r->err, TD_MALFORMED, "a parameter record of %u bytes, not 12", x->value);
    uint32_t number = word(x->bytes + 4) & 0xffff, offset = word(x->bytes + 4) >> 16, size = word(x->bytes + 8) >> 18;
    if (number >= n) return td_fail(r->err, TD_MALFORMED, "parameter %u of %u", number, n);
    if (v[number].size) return td_fail(r->err, TD_MALFORMED, "parameter %u occurs twice", number);
    v[number] = (td_cubin_param_t){offset, size};
    k->params_known = true;
    return TD_OK;
}

static td_status_t info(const reader_t *r, td_span_t s, td_cubin_kernel_t *k) {
    record_t x = {0};
    bool more = false;
    td_status_t st;
    uint32_t n = 0;
    for (size_t p = 0; !(st = next(r, s, &p, &x, &more)) && more;)
        n += x.format == FMT_BYTES && x.attribute == ATTR_KPARAM_INFO;
    if (st) return st;
    td_cubin_param_t *v = TD_NEW_N(r->arena, td_cubin_param_t, n);
    if (!v) return td_arena_fail(r->arena, r->err);
    k->params = v;
    k->n_params = n;
    bool block = false;
    for (size_t p = 0; !st && !(st = next(r, s, &p, &x, &more)) && more;) {
        if (x.attribute == ATTR_CBANK_PARAM_SIZE) {
            k->param_bytes = x.value;
            block = true;
        }
        if (x.format != FMT_BYTES) continue;
        if (x.attribute == ATTR_KPARAM_INFO) st = param(r, &x, k, v, n);
        if (x.attribute == ATTR_REQNTID && x.value >= 12)
            for (int i = 0; i < 3; i++) k->block[i] = word(x.bytes + 4 * i);
    }
    if (block && !k->param_bytes) k->params_known = true; /* it has none */
    for (uint32_t i = 0; i < n && !st; i++)
        if (!v[i].size || (block && !td_range_ok(v[i].offset, v[i].size, k->param_bytes)))
            st = td_fail(r->err, TD_MALFORMED, "parameter %u: %u bytes at %u of %u", i, v[i].size, v[i].offset,
                         k->param_bytes);
    return st;
}

static td_status_t kernels(const reader_t *r, td_cubin_t *out) {
    static const char prefix[] = ".nv.info.", text[] = ".text.";
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) n += !strncmp(section_name(r, i), prefix, sizeof prefix - 1);
    td_cubin_kernel_t *v = TD_NEW_N(r->arena, td_cubin_kernel_t, n);
    if (!v) return td_arena_fail(r->arena, r->err);
    for (uint32_t i = 0; i < r->n; i++) {
        const char *name = section_name(r, i);
        if (strncmp(name, prefix, sizeof prefix - 1)) continue;
        name += sizeof prefix - 1;
        bool code = false;
        for (uint32_t k = 0; k < r->n && !code; k++) {
            const char *other = section_name(r, k);
            code = !strncmp(other, text, sizeof text - 1) && !strcmp(other + sizeof text - 1, name);
        }
        if (!code) continue;
        td_cubin_kernel_t *k = &v[out->n_kernels];
        td_status_t st = info(r, content(r, &r->sections[i]), k);
        if (st) return td_prefix(r->err, st, "kernel '%s'", name);
        if (!(k->name = td_arena_strndup(r->arena, name, strlen(name)))) return td_arena_fail(r->arena, r->err);
        out->n_kernels++;
    }
    out->kernels = v;
    return TD_OK;
}

static td_status_t read_elf(td_span_t image, td_arena_t *arena, td_cubin_t *out, td_err_t *err) {
    reader_t r = {.image = image, .arena = arena, .err = err};
    Elf64_Ehdr h;
    td_status_t st;
    if (image.size < sizeof h) return td_fail(err, TD_MALFORMED, "an ELF header of %zu bytes, not %zu", image.size,
                                              sizeof h);
    memcpy(&h, image.data, sizeof h);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
        return td_fail(err, TD_UNSUPPORTED,
                       "an ELF file of class %u, byte order %u: code for GPUs is 64-bit, little-endian",
                       h.e_ident[EI_CLASS], h.e_ident[EI_DATA]);
    if (h.e_machine != MACHINE_CUDA)
        return td_fail(err, TD_UNSUPPORTED, "code for machine %u, not for NVIDIA GPUs (%d)", h.e_machine, MACHINE_CUDA);
    if ((st = programs(&r, &h)) || (st = sections(&r, &h)) || (st = symbols(&r, out)) ||
        (st = kernels(&r, out))) return st;
    target(&r, &h, out);
    return TD_OK;
}

static td_status_t read_fat(td_span_t image, td_cubin_t *out, td_err_t *err) {
    uint64_t size = 0, whole = 0;
    uint16_t header = 0;
    if (image.size < FAT_HEADER) return td_fail(err, TD_MALFORMED, "a fat binary of %zu bytes", image.size);
    memcpy(&header, image.data + 6, 2);
    memcpy(&size, image.data + 8, 8);
    if (!td_add_u64(header, size, &whole) || whole > image.size)
        return td_fail(err, TD_MALFORMED, "a fat binary of %llu bytes, of which %zu are there",
                       (unsigned long long)size, image.size);
    out->state = true; /* not looked into, so not shared */
    return TD_OK;
}

td_status_t td_cubin_read(td_span_t image, td_arena_t *arena, td_cubin_t *out, td_err_t *err) {
    *out = (td_cubin_t){0};
    if (image.size >= 4 && !memcmp(image.data, ELFMAG, SELFMAG)) return read_elf(image, arena, out, err);
    if (image.size >= 4 && word(image.data) == FAT_MAGIC) return read_fat(image, out, err);
    return td_fail(err, TD_MALFORMED, "%zu bytes that are neither an ELF file nor a fat binary", image.size);
}

const td_cubin_kernel_t *td_cubin_find(const td_cubin_t *c, const char *name) {
    for (uint32_t i = 0; i < c->n_kernels; i++)
        if (!strcmp(c->kernels[i].name, name)) return &c->kernels[i];
    return NULL;
}

td_status_t td_cubin_fits(const td_cubin_t *c, int major, int minor, td_err_t *err) {
    if (!c->sm) return TD_OK;
    int want_major = (int)c->sm / 10, want_minor = (int)c->sm % 10;
    bool exact = c->feature == 'a';
    if (major == want_major && (exact ? minor == want_minor : minor >= want_minor)) return TD_OK;
    return td_fail(err, TD_MISMATCH,
                   "code for sm_%u%.*s, device of compute capability %d.%d: %s; export the model for this device",
                   c->sm, c->feature ? 1 : 0, &c->feature, major, minor,
                   exact ? "that feature set runs on that capability alone"
                         : "code runs on devices of its major capability, its minor one or a later");
}
