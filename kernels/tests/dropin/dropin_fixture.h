/*
 * Buffers for the tests of libkernels.so: each is device memory with a copy on the host.  A test
 * calls the library on the one and a reference on the other, and compares.
 */
#ifndef CUSHIM_KERNELS_TESTS_DROPIN_FIXTURE_H
#define CUSHIM_KERNELS_TESTS_DROPIN_FIXTURE_H

#include "tests/unit/suite.h"

#include <stddef.h>
#include <stdint.h>

#include "kernels/dropin/libkernels.h"

struct buffer {
    void *device, *host;
    size_t n_bytes;
};

/* A context of device 0, which is the software device if CUSHIM_LIBCUDA names it, and a stream of
 * it; once per test, before anything else. */
void fixture_open(void);
extern cudaStream_t fixture_stream;

/* The same bytes on both sides. */
struct buffer fixture_put(const void *bytes, size_t n_bytes);
/* Room for results: bytes that no function writes. */
struct buffer fixture_room(size_t n_bytes);
/* Random floats in [low, high); random halves in [-2, 2). */
struct buffer fixture_floats(size_t n, double low, double high);
struct buffer fixture_halves(size_t n);

/*
 * Wait, then compare both sides: as doubles, floats, halves or bfloat16 within 1e-14, 1e-5, 2e-3 or
 * 8e-3 of the larger of 1 and the value, or as bytes.
 */
void fixture_assert_doubles(const char *what, const struct buffer *buffer);
void fixture_assert_floats(const char *what, const struct buffer *buffer);
void fixture_assert_halves(const char *what, const struct buffer *buffer);
void fixture_assert_bf16(const char *what, const struct buffer *buffer);
void fixture_assert_bytes(const char *what, const struct buffer *buffer);

/* The call succeeds. */
#define ck_done(call) ck_assert_int_eq((call), 0)

static inline uint32_t bits_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both = {value};
    return both.bits;
}

static inline uint64_t bits_of_double(double value) {
    union {
        double value;
        uint64_t bits;
    } both = {value};
    return both.bits;
}

#endif
