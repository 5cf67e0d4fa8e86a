/*
 * Inside trace/python: memory of the interpreter, and the line of a place in its code.
 */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "trace/python.h"

/* The same in all known versions. */
enum { OBJECT_TYPE = 8, SIZED_SIZE = 16, BYTES_DATA = 32, TEXT_LENGTH = 16, TEXT_STATE = 32 };
enum { STATE_KIND_SHIFT = 2, STATE_KIND = 7, STATE_COMPACT = 0x20, STATE_ASCII = 0x40 };

/* This process, because getpid is a system call; kept from the start or the fork on. */
extern atomic_int cushim_python_process;

/* Memory that may be missing, in several parts by one call. */
enum { MOST_PARTS = CUSHIM_PYTHON_LINES };
struct part {
    uint64_t at;
    void *to;
    size_t n_bytes;
};

/* Returns how many parts were read, from the first one on, of one or more. */
size_t cushim_python_read(const struct part *parts, size_t n);

static inline bool read_at(uint64_t address, void *to, size_t n_bytes) {
    return cushim_python_read(&(struct part){address, to, n_bytes}, 1) == 1;
}

static inline uint64_t word_at(const uint8_t *object, size_t offset) {
    uint64_t word;
    memcpy(&word, object + offset, sizeof word);
    return word;
}

static inline uint32_t half_at(const uint8_t *object, size_t offset) {
    uint32_t half;
    memcpy(&half, object + offset, sizeof half);
    return half;
}

/* The line of a place in code whose object was read, which is kept; 0 if it is none of the
 * program. */
uint64_t cushim_python_learn(const struct cushim_python_layout *layout, const uint8_t *object,
                             const struct cushim_python_place *place);
