/*
 * What the parts of the resolver share; hooks include preload/resolve/resolve.h.
 *
 * Words: *real* is the address that the real look-up gave; *symbol* the name that a program asks a
 * resolver for; *ABI name* the name of an export.  (symbol, version, flags) names a function, a
 * symbol does not (interposition.md A2).  So answers are routed by their address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/resolve/elf.h"
#include "preload/resolve/resolve.h"
#include "preload/resolve/unload.h"

/* The depth of this thread's look-ups; inside one, only the real function answers (B5). */
extern _Thread_local unsigned cushim_lookup_depth __attribute__((tls_model("initial-exec")));

/* Count one more look-up in cushim_page_calls, relaxed. */
static inline void cushim_lookup_count(atomic_ulong *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* driver.c, runtime.c */

/**
 * Take an object as the driver, if it is fit and there is no other fit one.
 * @return this object is the driver, and the table holds its functions
 */
bool cushim_driver_adopt(const struct cushim_object *object);

/* Does another preload, behind us, hook the runtime's allocations?  It must see all of them. */
bool cushim_runtime_is_interposed(void);

/* Forget the driver, and the runtimes, that are no longer loaded. */
void cushim_driver_settle(void);
void cushim_runtime_settle(void);

/* Take an object as the runtime of callers that name none; false if the tables are full. */
bool cushim_runtime_adopt(const struct cushim_object *object);

/* route.c */

/* Note the addresses of the driver's real functions, from its filled table. */
void cushim_route_fill(const struct cushim_cuda *driver);

/* Forget them, because they are unloaded. */
void cushim_route_forget(void);

/* Our hook for an ABI name of the driver or the runtime, by exact name (B4); NULL: not hooked. */
void *cushim_route_by_abi_name(const char *name, bool *of_runtime);

/**
 * Route the answer of a resolver (B11, B12, B14).
 * @param real     not NULL
 * @param symbol   the name asked for; not NULL
 * @param version  the CUDA version asked for
 * @param flags    CU_GET_PROC_ADDRESS_*; with others than 0, 1, 2 the answer does not change
 * @return our hook, or real
 */
void *cushim_route_answer(void *real, const char *symbol, int version, uint64_t flags);

/* Count a cuMem* name that goes out unhooked, once per name (B16); other names are ignored. */
void cushim_route_count_unhooked(const char *name);
