/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/highway.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { PACKET = 32 };

static uint64_t halves_swapped(uint64_t x) {
    return x >> 32 | x << 32;
}

void td_highway_init(td_highway_t *h) {
    /* The bytes of "Riegeli/records\n", twice. */
    static const uint64_t key[4] = {0x2f696c6567656952u, 0x0a7364726f636572u, 0x2f696c6567656952u, 0x0a7364726f636572u};
    td_highway_init_key(h, key);
}

void td_highway_init_key(td_highway_t *h, const uint64_t key[4]) {
    static const uint64_t mul0[4] = {0xdbe6d5d5fe4cce2fu, 0xa4093822299f31d0u, 0x13198a2e03707344u,
                                     0x243f6a8885a308d3u};
    static const uint64_t mul1[4] = {0x3bd39e10cb0ef593u, 0xc0acf169b5f18a8cu, 0xbe5466cf34e90c6cu,
                                     0x452821e638d01377u};
    h->n_rest = 0;
    for (int i = 0; i < 4; i++) {
        h->mul0[i] = mul0[i];
        h->mul1[i] = mul1[i];
        h->v0[i] = mul0[i] ^ key[i];
        h->v1[i] = mul1[i] ^ halves_swapped(key[i]);
    }
}

static uint64_t byte_at(uint64_t x, unsigned from, unsigned to) {
    uint64_t b = x >> (8 * from) & 255;
    return b << (8 * to);
}

/* Adds the bytes of two lanes, shuffled, to two others. */
static void zipper(uint64_t hi, uint64_t lo, uint64_t *add_hi, uint64_t *add_lo) {
    *add_lo += byte_at(lo, 3, 0) | byte_at(hi, 4, 1) | byte_at(lo, 2, 2) | byte_at(lo, 5, 3) | byte_at(hi, 6, 4) |
               byte_at(lo, 1, 5) | byte_at(hi, 7, 6) | byte_at(lo, 0, 7);
    *add_hi += byte_at(hi, 3, 0) | byte_at(lo, 4, 1) | byte_at(hi, 2, 2) | byte_at(hi, 5, 3) | byte_at(hi, 1, 4) |
               byte_at(lo, 6, 5) | byte_at(hi, 0, 6) | byte_at(lo, 7, 7);
}

static void update(td_highway_t *h, const uint64_t lanes[4]) {
    for (int i = 0; i < 4; i++) {
        h->v1[i] += h->mul0[i] + lanes[i];
        h->mul0[i] ^= (h->v1[i] & 0xffffffffu) * (h->v0[i] >> 32);
        h->v0[i] += h->mul1[i];
        h->mul1[i] ^= (h->v0[i] & 0xffffffffu) * (h->v1[i] >> 32);
    }
    zipper(h->v1[1], h->v1[0], &h->v0[1], &h->v0[0]);
    zipper(h->v1[3], h->v1[2], &h->v0[3], &h->v0[2]);
    zipper(h->v0[1], h->v0[0], &h->v1[1], &h->v1[0]);
    zipper(h->v0[3], h->v0[2], &h->v1[3], &h->v1[2]);
}

static void packet(td_highway_t *h, const uint8_t *p) {
    uint64_t lanes[4];
    memcpy(lanes, p, PACKET); /* little-endian hosts only */
    update(h, lanes);
}

static void packets(td_highway_t *h, const uint8_t *p, size_t n) {
    for (; n; n--, p += PACKET) packet(h, p);
}

#ifdef __x86_64__
/* The same four lanes at once: some ten times faster. */
__attribute__((target("avx2"))) static void packets_avx2(td_highway_t *h, const uint8_t *p, size_t n) {
    const __m256i zip = _mm256_set_epi64x(0x070806090d0a040b, 0x000f010e05020c03, 0x070806090d0a040b,
                                          0x000f010e05020c03);
    __m256i v0 = _mm256_loadu_si256((const __m256i *)(const void *)h->v0);
    __m256i v1 = _mm256_loadu_si256((const __m256i *)(const void *)h->v1);
    __m256i mul0 = _mm256_loadu_si256((const __m256i *)(const void *)h->mul0);
    __m256i mul1 = _mm256_loadu_si256((const __m256i *)(const void *)h->mul1);
    for (; n; n--, p += PACKET) {
        __m256i lanes = _mm256_loadu_si256((const __m256i *)(const void *)p);
        v1 = _mm256_add_epi64(v1, _mm256_add_epi64(mul0, lanes));
        mul0 = _mm256_xor_si256(mul0, _mm256_mul_epu32(v1, _mm256_srli_epi64(v0, 32)));
        v0 = _mm256_add_epi64(v0, mul1);
        mul1 = _mm256_xor_si256(mul1, _mm256_mul_epu32(v0, _mm256_srli_epi64(v1, 32)));
        v0 = _mm256_add_epi64(v0, _mm256_shuffle_epi8(v1, zip));
        v1 = _mm256_add_epi64(v1, _mm256_shuffle_epi8(v0, zip));
    }
    _mm256_storeu_si256((__m256i *)(void *)h->v0, v0);
    _mm256_storeu_si256((__m256i *)(void *)h->v1, v1);
    _mm256_storeu_si256((__m256i *)(void *)h->mul0, mul0);
    _mm256_storeu_si256((__m256i *)(void *)h->mul1, mul1);
}
#define HAVE_AVX2 __builtin_cpu_supports("avx2")
#else
#define packets_avx2 packets
#define HAVE_AVX2 0
#endif

void td_highway_add(td_highway_t *h, const void *data, size_t size) {
    const uint8_t *p = data;
    if (h->n_rest) {
        size_t k = PACKET - h->n_rest < size ? PACKET - h->n_rest : size;
        memcpy(h->rest + h->n_rest, p, k);
        h->n_rest += k;
        p += k, size -= k;
        if (h->n_rest < PACKET) return;
        packet(h, h->rest);
        h->n_rest = 0;
    }
    if (size >= 4 * PACKET && HAVE_AVX2) packets_avx2(h, p, size / PACKET);
    else packets(h, p, size / PACKET);
    p += size / PACKET * PACKET;
    size %= PACKET;
    if (size) memcpy(h->rest, p, size);
    h->n_rest = size;
}

/* The last 1 to 31 bytes, with their count mixed in. */
static void remainder_in(td_highway_t *h) {
    uint64_t n = h->n_rest;
    uint8_t last[PACKET] = {0};
    size_t whole = n & ~3u, odd = n & 3;
    const uint8_t *tail = h->rest + whole;
    for (int i = 0; i < 4; i++) {
        h->v0[i] += (n << 32) + n;
        uint32_t lo = (uint32_t)h->v1[i], hi = (uint32_t)(h->v1[i] >> 32);
        lo = lo << n | lo >> (32 - n);
        hi = hi << n | hi >> (32 - n);
        h->v1[i] = (uint64_t)hi << 32 | lo;
    }
    memcpy(last, h->rest, whole);
    if (n & 16) {
        for (int i = 0; i < 4; i++) last[28 + i] = h->rest[n - 4 + (size_t)i];
    } else if (odd) {
        last[16] = tail[0];
        last[17] = tail[odd >> 1];
        last[18] = tail[odd - 1];
    }
    packet(h, last);
}

static void stir(td_highway_t *h, int rounds) {
    if (h->n_rest) remainder_in(h);
    for (int i = 0; i < rounds; i++) {
        uint64_t permuted[4] = {halves_swapped(h->v0[2]), halves_swapped(h->v0[3]), halves_swapped(h->v0[0]),
                                halves_swapped(h->v0[1])};
        update(h, permuted);
    }
}

uint64_t td_highway_end(td_highway_t *h) {
    stir(h, 4);
    return h->v0[0] + h->v1[0] + h->mul0[0] + h->mul1[0];
}

/* 256 bits, the highest first, modulo x^128 + x^2 + x. */
static void reduce(uint64_t a3, uint64_t a2, uint64_t a1, uint64_t a0, uint64_t out[2]) {
    a3 &= 0x3fffffffffffffffu;
    out[1] = a1 ^ (a3 << 1 | a2 >> 63) ^ (a3 << 2 | a2 >> 62);
    out[0] = a0 ^ a2 << 1 ^ a2 << 2;
}

void td_highway_end256(td_highway_t *h, uint64_t out[4]) {
    stir(h, 10);
    for (int i = 0; i < 4; i += 2)
        reduce(h->v1[i + 1] + h->mul1[i + 1], h->v1[i] + h->mul1[i], h->v0[i + 1] + h->mul0[i + 1],
               h->v0[i] + h->mul0[i], out + i);
}
