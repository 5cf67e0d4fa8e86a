/*
 * What the parts of the resolver share; hooks want resolve.h.
 *
 * Words: *real* is the address that the real look-up gave; *symbol* the name a program asks a
 * resolver for; *ABI name* the name of an export.  (symbol, version, flags) names a function, a
 * symbol does not (interposition.md A2), and that is why answers are routed by their address.
 */
#ifndef CUSHIM_PRELOAD_LOOKUP_H
#define CUSHIM_PRELOAD_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/resolve/elf.h"
#include "preload/resolve/resolve.h"
#include "preload/resolve/unload.h"

/* How many look-ups this thread is in; inside one, the real function answers alone (B5). */
extern _Thread_local unsigned cushim_lookup_depth __attribute__((tls_model("initial-exec")));

/* One look-up more of those counted in cushim_page_calls, relaxed. */
static inline void cushim_lookup_count(atomic_ulong *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* driver.c, runtime.c */

/**
 * Take an object for the driver, if it is fit for that and there is no other fit one.
 * @return this object is the driver, and the table holds its functions
 */
bool cushim_driver_adopt(const struct cushim_object *object);

/* Does another preload, behind us, hook the runtime's allocations?  It shall see them all. */
bool cushim_runtime_is_interposed(void);

/* Forget the driver, and the runtimes, that are no longer loaded. */
void cushim_driver_settle(void);
void cushim_runtime_settle(void);

/* Take an object for the runtime of callers that name none; false where the tables are full. */
bool cushim_runtime_adopt(const struct cushim_object *object);

/* route.c */

/* Note where the driver's real functions are, of its table that is filled. */
void cushim_route_fill(const struct cushim_cuda *driver);

/* And forget it: they are unloaded. */
void cushim_route_forget(void);

/* Our hook for an ABI name of the driver or the runtime, by exact name (B4); NULL: not hooked. */
void *cushim_route_by_abi_name(const char *name, bool *of_runtime);

/**
 * Route the answer of a resolver (B11, B12, B14).
 * @param real     not NULL
 * @param symbol   what was asked for; not NULL
 * @param version  the CUDA version asked for
 * @param flags    CU_GET_PROC_ADDRESS_*; with others than 0, 1, 2 the answer stays as it is
 * @return our hook, or real
 */
void *cushim_route_answer(void *real, const char *symbol, int version, uint64_t flags);

/* Count a cuMem* name that goes out unhooked, once per name (B16); all other names are ignored. */
void cushim_route_count_unhooked(const char *name);

#endif
