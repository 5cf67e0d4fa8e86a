/*
 * Checked calls, options, a random sequence and a result line, for the programs of this folder.
 *
 * A program prints a result line on stdout and exits 0 only if its results are right. Its output
 * depends only on its options, so that two runs can be compared byte by byte; with --time it prints
 * one more line. The code is both C and C++, because nvcc compiles C++.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call that must succeed. */
#define TRY(call) program_check((call), #call, __FILE__, __LINE__)

/* A condition that must hold. */
#define MUST(condition)                                                                            \
    ((condition) ? (void)0 : program_fail("not true", #condition, __FILE__, __LINE__))

static inline void program_fail(const char *why, const char *what, const char *file, int line) {
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
    _Exit(1);
}

static inline void program_check(cudaError_t error, const char *what, const char *file, int line) {
    if (error != cudaSuccess)
        program_fail(cudaGetErrorName(error), what, file, line);
}

/* The value after `--name`, or the default. */
static inline size_t program_option(int argc, char **argv, const char *name, size_t value) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            value = (size_t)strtoull(argv[i + 1], NULL, 0);
    }
    return value;
}

static inline int program_flag(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return 1;
    }
    return 0;
}

static inline double program_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The same sequence everywhere: splitmix64. */
static inline unsigned long long program_random(unsigned long long *state) {
    unsigned long long z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* The value after `--name`, or a random one; the sequence advances in both cases. */
static inline unsigned program_drawn(int argc, char **argv, const char *name,
                                     unsigned long long *state, unsigned least, unsigned most) {
    unsigned drawn = least + (unsigned)(program_random(state) % (most - least + 1));
    return (unsigned)program_option(argc, argv, name, drawn);
}

/* FNV-1a over bytes; start with CHECKSUM, then continue with the result. */
#define CHECKSUM 0xcbf29ce484222325ull

static inline unsigned long long program_checksum(unsigned long long sum, const void *data,
                                                  size_t n_bytes) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < n_bytes; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ull;
    return sum;
}

/* For data that threads share: compilers' built-ins, because C and C++ have no common atomic
 * type. */
static inline int program_load(const int *shared) {
    return __atomic_load_n(shared, __ATOMIC_SEQ_CST);
}

static inline void program_add(int *shared, int n) {
    __atomic_fetch_add(shared, n, __ATOMIC_SEQ_CST);
}

static inline void *program_allocate(size_t n_bytes) {
    void *memory = calloc(1, n_bytes);
    MUST(memory != NULL);
    return memory;
}
