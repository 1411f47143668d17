/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakecuda/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { EM_OF_CUDA = 190, ENTRY = 0x10, MOST_PARAMS = 4096 };
enum { ATTR_MAX_THREADS = 0x05, ATTR_REQUIRED_THREADS = 0x10, ATTR_PARAM = 0x17, ATTR_PARAM_BYTES = 0x19,
    ATTR_REGISTERS = 0x2f };
enum { FORMAT_BYTES = 4 };

static Elf64_Ehdr header(const void *image) {
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    return h;
}
/* Section i; zeros when it lies outside the file. */
static Elf64_Shdr section(const void *image, const Elf64_Ehdr *h, size_t size, uint32_t i) {
    Elf64_Shdr s = {0};
    uint64_t at = 0;
    if (i < h->e_shnum && td_add_u64(h->e_shoff, (uint64_t)i * sizeof s, &at) && td_range_ok(at, sizeof s, size))
        memcpy(&s, (const char *)image + at, sizeof s);
    return s;
}

size_t fk_elf_bytes(const void *image, size_t most) {
    if (most < sizeof(Elf64_Ehdr) || memcmp(image, ELFMAG, SELFMAG)) return 0;
    Elf64_Ehdr h = header(image);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof(Elf64_Shdr)) return 0;
    if (!td_range_ok(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr), most)) return 0;
    uint64_t end = h.e_shoff + (uint64_t)h.e_shnum * sizeof(Elf64_Shdr);
    uint64_t headers = h.e_phoff + (uint64_t)h.e_phnum * h.e_phentsize;
    if (h.e_phnum && headers > end && headers <= most) end = headers;
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s = section(image, &h, most, i);
        uint64_t last = 0;
        if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL) continue;
        if (!td_add_u64(s.sh_offset, s.sh_size, &last) || last > most) return 0;
        if (last > end) end = last;
    }
    return (size_t)end;
}

/* The string at an offset of the file's part [begin, begin + size), "" when it does not end there. */
static const char *text(const fk_image_t *im, const Elf64_Shdr *strings, uint64_t at) {
    if (!td_range_ok(strings->sh_offset, strings->sh_size, im->size) || at >= strings->sh_size) return "";
    const char *s = (const char *)im->bytes + strings->sh_offset + at;
    return memchr(s, 0, strings->sh_size - at) ? s : "";
}

static void *grown(void *v, uint32_t n, size_t size) { /* by one, zeroed */
    char *w = realloc(v, (n + 1) * size);
    if (!w) abort();
    memset(w + n * size, 0, size);
    return w;
}
static char *copy_name(const char *s, size_t n) {
    char *c = strndup(s, n);
    if (!c) abort();
    return c;
}
fk_kernel_info_t *fk_image_kernel(fk_image_t *im, const char *name, size_t n) {
    for (uint32_t i = 0; i < im->n_kernels; i++)
        if (strlen(im->kernels[i].name) == n && !memcmp(im->kernels[i].name, name, n)) return &im->kernels[i];
    im->kernels = grown(im->kernels, im->n_kernels, sizeof *im->kernels);
    fk_kernel_info_t *k = &im->kernels[im->n_kernels++];
    k->name = copy_name(name, n);
    k->max_threads = 1024;
    return k;
}
fk_param_t *fk_image_param(fk_kernel_info_t *k, uint32_t index) {
    if (index >= MOST_PARAMS) return NULL;
    while (k->n_params <= index) {
        k->params = grown(k->params, k->n_params, sizeof *k->params);
        k->n_params++;
    }
    return &k->params[index];
}

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }

static void attribute(fk_kernel_info_t *k, uint8_t number, const uint8_t *v, size_t n) {
    if (number == ATTR_REGISTERS && n >= 8) {
        if (u32(v) == k->symbol) k->registers = u32(v + 4);
    } else if (number == ATTR_PARAM && n >= 12) {
        fk_param_t *p = fk_image_param(k, u16(v + 4));
        if (p) *p = (fk_param_t){u16(v + 6), u32(v + 8) >> 18};
    } else if (number == ATTR_PARAM_BYTES && n >= 2) {
        k->param_bytes = u16(v);
    } else if (number == ATTR_MAX_THREADS && n >= 12) {
        k->max_threads = u32(v) * u32(v + 4) * u32(v + 8);
    } else if (number == ATTR_REQUIRED_THREADS && n >= 12) {
        for (int i = 0; i < 3; i++) k->required[i] = u32(v + 4 * i);
        k->max_threads = k->required[0] * k->required[1] * k->required[2];
    }
}
static void attributes(fk_kernel_info_t *k, const uint8_t *p, size_t n) {
    while (n >= 4) {
        size_t more = p[0] == FORMAT_BYTES ? u16(p + 2) : 0;
        if (more > n - 4) return;
        attribute(k, p[1], p[0] == FORMAT_BYTES ? p + 4 : p + 2, p[0] == FORMAT_BYTES ? more : 2);
        p += 4 + more;
        n -= 4 + more;
    }
}

static void variable(fk_image_t *im, const Elf64_Shdr *home, const char *name, const Elf64_Sym *sym) {
    if (!td_range_ok(sym->st_value, sym->st_size, home->sh_size)) return;
    im->variables = grown(im->variables, im->n_variables, sizeof *im->variables);
    fk_variable_t *v = &im->variables[im->n_variables++];
    v->name = copy_name(name, strlen(name));
    v->bytes = sym->st_size;
    if (home->sh_type == SHT_NOBITS) return;
    v->init = im->bytes + home->sh_offset + sym->st_value;
    v->n_init = v->bytes;
}
static void symbols(fk_image_t *im, const Elf64_Ehdr *h, const Elf64_Shdr *table) {
    Elf64_Shdr strings = section(im->bytes, h, im->size, table->sh_link);
    for (uint64_t i = 0; i + sizeof(Elf64_Sym) <= table->sh_size; i += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        memcpy(&s, im->bytes + table->sh_offset + i, sizeof s);
        const char *name = text(im, &strings, s.st_name);
        if (!*name || s.st_shndx == SHN_UNDEF || s.st_shndx >= h->e_shnum) continue;
        Elf64_Shdr home = section(im->bytes, h, im->size, s.st_shndx);
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_other & ENTRY) {
            fk_kernel_info_t *k = fk_image_kernel(im, name, strlen(name));
            k->symbol = (uint32_t)(i / sizeof(Elf64_Sym));
            k->registers = home.sh_info >> 24;
        } else if (ELF64_ST_TYPE(s.st_info) == STT_OBJECT && s.st_size) {
            variable(im, &home, name, &s);
        }
    }
}

static CUresult elf(fk_image_t *im, const char **why) {
    Elf64_Ehdr h = header(im->bytes);
    if (h.e_machine != EM_OF_CUDA) {
        *why = "an ELF file for another machine";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    im->architecture = (int)(h.e_ident[EI_ABIVERSION] >= 8 ? h.e_flags >> 8 & 0xff : h.e_flags & 0xff);
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s = section(im->bytes, &h, im->size, i);
        if (s.sh_type == SHT_SYMTAB) symbols(im, &h, &s);
    }
    Elf64_Shdr names = section(im->bytes, &h, im->size, h.e_shstrndx);
    static const char info[] = ".nv.info.", shared[] = ".nv.shared.";
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s = section(im->bytes, &h, im->size, i);
        const char *name = text(im, &names, s.sh_name);
        const char *of = !strncmp(name, info, sizeof info - 1) ? name + sizeof info - 1
                         : !strncmp(name, shared, sizeof shared - 1) ? name + sizeof shared - 1 : NULL;
        bool whole = !strcmp(name, ".nv.info"); /* of all kernels */
        for (uint32_t k = 0; (of || whole) && s.sh_type != SHT_NULL && k < im->n_kernels; k++) {
            if (of && strcmp(im->kernels[k].name, of)) continue;
            if (of && name[4] == 's') im->kernels[k].static_shared = (uint32_t)s.sh_size;
            else if (s.sh_type != SHT_NOBITS) attributes(&im->kernels[k], im->bytes + s.sh_offset, s.sh_size);
        }
    }
    return CUDA_SUCCESS;
}

CUresult fk_image_open(const void *image, fk_image_t *out, const char **why) {
    *out = (fk_image_t){0};
    *why = "neither a cubin nor PTX";
    size_t n = fk_elf_bytes(image, SIZE_MAX / 2);
    out->ptx = !n;
    out->size = n ? n : strnlen(image, 1u << 30);
    if (out->ptx && (!out->size || !strstr(image, ".version"))) return CUDA_ERROR_INVALID_IMAGE;
    out->bytes = malloc(out->size + 1);
    if (!out->bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out->bytes, image, out->size);
    out->bytes[out->size] = 0;
    out->hash = td_hash_bytes(out->bytes, out->size);
    CUresult r = out->ptx ? fk_ptx_read(out, why) : elf(out, why);
    if (r) fk_image_close(out);
    return r;
}
void fk_image_close(fk_image_t *im) {
    for (uint32_t i = 0; i < im->n_kernels; i++) {
        free(im->kernels[i].name);
        free(im->kernels[i].params);
    }
    for (uint32_t i = 0; i < im->n_variables; i++) free(im->variables[i].name);
    free(im->kernels);
    free(im->variables);
    free(im->bytes);
    *im = (fk_image_t){0};
}
