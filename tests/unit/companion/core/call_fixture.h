/*
 * For the suites of streams, events, modules and functions: a primary context, the number of calls
 * of a driver function, and a loop that makes the n-th driver call fail.
 */
#pragma once

#include "cushim/context.h"
#include "cushim/library.h"
#include "companion/core/driver.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tools/sim/sim.h"

#define ck_is(expr, status)                                                                        \
    do {                                                                                           \
        enum cushim_status status_ = (expr);                                                       \
        ck_assert_msg(status_ == (status), "%s is %s: %s", #expr, cushim_status_name(status_),     \
                      cushim_last_error());                                                        \
    } while (0)
#define ck_ok(expr) ck_is((expr), CUSHIM_OK)
#define ck_said(part)                                                                              \
    ck_assert_msg(strstr(cushim_last_error(), (part)) != NULL, "text: %s", cushim_last_error())

/* Remove this entry point from the loaded driver. */
#define driver_loses(entry) atomic_store(&CUSHIM_DRIVER(entry), (__typeof__(&entry))0)

static inline unsigned long n_calls(const char *name) {
    return SIM(sim_calls)(name);
}

/*
 * for (unsigned n = 1;; n++) { fail_at(n); status = ..; if (fail_is_over(status)) break; }: the
 * loop ends with the first run in which no call failed, and that run must succeed.
 */
static inline void fail_at(unsigned n) {
    ck_assert_uint_lt(n, 100);
    SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
}

static inline bool fail_is_over(enum cushim_status status) {
    int has_failed = SIM(sim_has_failed)();
    SIM(sim_fail_at)(0, CUDA_SUCCESS);
    if (!has_failed)
        ck_ok(status);
    return !has_failed;
}

static inline struct cushim_context *primary(int dev) {
    struct cushim_context *ctx;
    ck_ok(cushim_context_primary(dev, &ctx));
    return ctx;
}
