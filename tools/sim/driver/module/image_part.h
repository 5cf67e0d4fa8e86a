/* A stretch of bytes of an image, which may be damaged: nothing outside it is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct sim_part {
    const char *bytes;
    size_t n_bytes;
};

/* n bytes at `offset`; bytes NULL: the part is shorter. */
static inline struct sim_part sim_part_of(struct sim_part part, size_t offset, size_t n) {
    bool is_inside = part.bytes && offset <= part.n_bytes && n <= part.n_bytes - offset;
    return is_inside ? (struct sim_part){part.bytes + offset, n} : (struct sim_part){NULL, 0};
}

/* Copied, because nothing in an image need be aligned. */
static inline bool sim_part_copy(void *to, struct sim_part part, size_t offset, size_t n) {
    struct sim_part from = sim_part_of(part, offset, n);
    if (from.bytes)
        memcpy(to, from.bytes, n);
    return from.bytes != NULL;
}

/* The text at `offset`, or "" if it does not end inside the part. */
static inline const char *sim_part_text(struct sim_part part, size_t offset) {
    if (!part.bytes || offset >= part.n_bytes ||
        !memchr(part.bytes + offset, 0, part.n_bytes - offset))
        return "";
    return part.bytes + offset;
}
