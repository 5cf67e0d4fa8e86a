#include "preload/resolve/unload.h"

#include <string.h>

#include "preload/resolve/callers.h"
#include "preload/resolve/guard.h"
#include "preload/resolve/lookup.h"

typedef int dlclose_fn(void *);

CUSHIM_EXPORT int dlclose(void *handle);

atomic_uint cushim_unload_n;
struct cushim_guard cushim_guard = {CUSHIM_GUARD_EPOCH | CUSHIM_GUARD_UNUSUAL};

void cushim_unload_settle(void) {
    static atomic_ullong n_seen;
    unsigned long long n = cushim_object_unloads();
    if (atomic_load(&n_seen) == n)
        return;
    cushim_callers_forget();
    cushim_runtime_settle();
    cushim_driver_settle();
    atomic_store(&n_seen, n);
}

/* The word keeps entry points from using what they remember of the driver without a look at its
 * table. */
static void enter(void) {
    atomic_fetch_add(&cushim_unload_n, 1);
    atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_UNUSUAL);
}

static void leave(void) {
    cushim_unload_settle();
    atomic_fetch_sub(&cushim_guard.now, CUSHIM_GUARD_UNUSUAL);
    atomic_fetch_sub(&cushim_unload_n, 1);
}

/* Unlike dlopen it does not need the caller's address (B9).  Without a real one nothing can be
 * closed. */
CUSHIM_EXPORT int dlclose(void *handle) {
    static _Atomic(void *) real;
    dlclose_fn *close = NULL;
    void *address = atomic_load_explicit(&real, memory_order_relaxed);
    if (!address) {
        address = cushim_object_next_symbol("dlclose");
        atomic_store_explicit(&real, address, memory_order_relaxed);
    }
    if (!address)
        return -1;
    memcpy(&close, &address, sizeof close);
    enter();
    int answer = close(handle);
    leave();
    return answer;
}
