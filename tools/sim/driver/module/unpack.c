#include "unpack.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static const struct sim_part NOTHING = {NULL, 0};

struct sim_part sim_unpack_none(struct sim_part packed) {
    char *bytes = packed.bytes ? malloc(packed.n_bytes + 1) : NULL;
    if (!bytes)
        return NOTHING;
    memcpy(bytes, packed.bytes, packed.n_bytes);
    return (struct sim_part){bytes, packed.n_bytes};
}

/* ---- LZ4 ---- */

struct lz4 {
    struct sim_part from;
    size_t at; /* in `from` */
    char *to;
    size_t n_to, n_done;
};

static bool take_byte(struct lz4 *lz4, unsigned char *byte) {
    return sim_part_copy(byte, lz4->from, lz4->at++, 1);
}

/* A length of four bits; 15 goes on in bytes, of which the last is not 255. */
static bool take_length(struct lz4 *lz4, size_t *n) {
    unsigned char byte = 255;
    if (*n != 15)
        return true;
    while (byte == 255) {
        if (!take_byte(lz4, &byte))
            return false;
        *n += byte;
    }
    return true;
}

static bool put_literals(struct lz4 *lz4, size_t n) {
    if (n > lz4->n_to - lz4->n_done || !sim_part_copy(lz4->to + lz4->n_done, lz4->from, lz4->at, n))
        return false;
    lz4->at += n;
    lz4->n_done += n;
    return true;
}

/* Byte by byte, because a match may overlap its own output. */
static bool put_match(struct lz4 *lz4, size_t distance, size_t n) {
    if (distance == 0 || distance > lz4->n_done || n > lz4->n_to - lz4->n_done)
        return false;
    for (size_t i = 0; i < n; i++, lz4->n_done++)
        lz4->to[lz4->n_done] = lz4->to[lz4->n_done - distance];
    return true;
}

/* Sequences of literals and a match; the last one ends after its literals. */
static bool unpack_sequences(struct lz4 *lz4) {
    enum { SHORTEST_MATCH = 4 };
    while (lz4->at < lz4->from.n_bytes) {
        unsigned char token, low, high;
        if (!take_byte(lz4, &token))
            return false;
        size_t n_literals = token >> 4, n_match = token & 15;
        if (!take_length(lz4, &n_literals) || !put_literals(lz4, n_literals))
            return false;
        if (lz4->at == lz4->from.n_bytes)
            break;
        if (!take_byte(lz4, &low) || !take_byte(lz4, &high) || !take_length(lz4, &n_match) ||
            !put_match(lz4, (size_t)low | (size_t)high << 8, n_match + SHORTEST_MATCH))
            return false;
    }
    return lz4->n_done == lz4->n_to;
}

struct sim_part sim_unpack_lz4(struct sim_part packed, size_t n_bytes) {
    struct lz4 lz4 = {.from = packed, .n_to = n_bytes};
    lz4.to = packed.bytes ? malloc(n_bytes + 1) : NULL;
    if (!lz4.to)
        return NOTHING;
    if (!unpack_sequences(&lz4)) {
        free(lz4.to);
        return NOTHING;
    }
    return (struct sim_part){lz4.to, n_bytes};
}

/* ---- zstd ---- */

typedef size_t decompress_fn(void *to, size_t n_to, const void *from, size_t n_from);

static decompress_fn *find_zstd(void) {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "ZSTD_decompress") : NULL;
    decompress_fn *function;
    memcpy(&function, &address, sizeof function);
    return function;
}

struct sim_part sim_unpack_zstd(struct sim_part packed, size_t n_bytes) {
    static decompress_fn *decompress; /* under the driver's lock */
    if (!decompress)
        decompress = find_zstd();
    char *bytes = packed.bytes && decompress ? malloc(n_bytes + 1) : NULL;
    if (!bytes)
        return NOTHING;
    if (decompress(bytes, n_bytes, packed.bytes, packed.n_bytes) != n_bytes) {
        free(bytes);
        return NOTHING;
    }
    return (struct sim_part){bytes, n_bytes};
}
