/*
 * What the suites of calls and loading share: a family of the test's own, whose kernels the
 * software device has, and a function on it like a public one.
 *
 * A test first says where it runs (fixture_force), because that is read once; each test is its own
 * process.
 */
#ifndef CUSHIM_KERNELS_TESTS_FIXTURE_H
#define CUSHIM_KERNELS_TESTS_FIXTURE_H

#include "base/try.h"
#include "kernels/launch/call.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

enum fixture_kernel { FIXTURE_STORE, FIXTURE_LARGE, FIXTURE_N_KERNELS };

extern struct cushim_kernel_family cushim_family_fixture;

/* Sets CUSHIM_KERNEL_ARCH; NULL leaves it to the device. */
static inline void fixture_force(const char *arch) {
    if (arch)
        setenv("CUSHIM_KERNEL_ARCH", arch, 1);
    else
        unsetenv("CUSHIM_KERNEL_ARCH");
}

struct fixture_args {
    uint32_t *dst;
    uint32_t value;
};

/* *dst = value, by the kernel or by its reference. */
enum cushim_status fixture_store_by(enum fixture_kernel kernel,
                                    const struct cushim_kernel_shape *shape,
                                    struct fixture_args *args, CUstream stream);
enum cushim_status fixture_store(uint32_t *dst, uint32_t value, CUstream stream);

/* Through the driver, not through what is tested. */
void fixture_context(int device);                 /* a primary one, current from here on */
CUstream fixture_stream(void);                    /* of the current context */
uint32_t *fixture_word(void);                     /* device memory, 0 */
uint32_t fixture_read(const uint32_t *word);      /* waits for the context */
CUgraphExec fixture_end_capture(CUstream stream); /* valid, with at least one node; instantiated */
void fixture_replay(CUgraphExec executable, CUstream stream);

#endif
