/*
 * From a real address to our hook.
 *
 * Each row of cuda/symbols.def is a route.  A resolver's answer is looked up by its address, which
 * settles revision, flags and the resolver's look-up of itself without looking at names
 * (interposition.md B12).  Names decide in two cases only: if two rows share one address, and if
 * the driver's resolver does not return the exported addresses (B14).
 *
 * The thread that fills or empties the table writes an address; it is read without a lock.
 */
#include "preload/resolve/lookup.h"

#include <stddef.h>
#include <string.h>

#include "cuda/table.h"

typedef void hook_fn(void);

struct route {
    const char *abi_name, *symbol;
    int since;
    bool is_runtime;
    uint16_t slot; /* its offset in the driver's table, if it is hooked there */
    hook_fn *hook; /* NULL: listed, not hooked */
};

#define HOOK_HOOK(abi)       (hook_fn *)abi
#define HOOK_CALL(abi)       NULL
#define HOOK_NATIVE(abi)     NULL
#define IS_RUNTIME_DRV       false
#define IS_RUNTIME_RT        true
#define SLOT_DRV_HOOK(abi)   offsetof(struct cushim_cuda, abi)
#define SLOT_DRV_CALL(abi)   0
#define SLOT_DRV_NATIVE(abi) 0
#define SLOT_RT_HOOK(abi)    0
#define SLOT_RT_CALL(abi)    0

static const struct route routes[] = {
#define SYM(role, api, abi, asked_as, since, need)                                                 \
    {#abi, asked_as, since, IS_RUNTIME_##api, SLOT_##api##_##role(abi), HOOK_##role(abi)},
#include "cuda/symbols.def"
#undef SYM
};

enum { N_ROUTES = sizeof routes / sizeof routes[0], N_NAMES = 256, N_PLACES = 2048 };

static _Atomic(void *) addresses[N_ROUTES]; /* of the driver's hooked functions; otherwise NULL */

/*
 * The rows by the addresses of their hooks and of the driver's functions; 0: no row, otherwise one
 * more than its number.  A row is at the first free place from the hash of its address on.
 */
static _Atomic uint16_t rows_by_address[N_PLACES];
_Static_assert(N_PLACES > 2 * N_ROUTES, "a search ends at a free place");

struct cushim_page_calls cushim_page_calls;

/* ISO C has no cast from a function to void *, so copy the bytes. */
static void *hook_of(const struct route *route) {
    void *address;
    memcpy(&address, &route->hook, sizeof address);
    return address;
}

static unsigned place_of(const void *address) {
    return (uintptr_t)address * 0x9e3779b97f4a7c15u >> 53;
}

static void enter(const void *address, unsigned row) {
    unsigned i = place_of(address);
    while (atomic_load(&rows_by_address[i]))
        i = (i + 1) % N_PLACES;
    atomic_store(&rows_by_address[i], (uint16_t)(row + 1));
}

void cushim_route_fill(const struct cushim_cuda *driver) {
    for (unsigned i = 0; i < N_ROUTES; i++) {
        void *address = NULL;
        if (!routes[i].hook)
            continue;
        if (!routes[i].is_runtime)
            memcpy(&address, (const char *)driver + routes[i].slot, sizeof address);
        atomic_store(&addresses[i], address);
        enter(hook_of(&routes[i]), i);
        if (address)
            enter(address, i);
    }
}

void cushim_route_forget(void) {
    for (unsigned i = 0; i < N_PLACES; i++)
        atomic_store(&rows_by_address[i], 0);
    atomic_store(&cushim_page_calls.lookups.identity, CUSHIM_IDENTITY_UNKNOWN);
}

void *cushim_route_by_abi_name(const char *name, bool *of_runtime) {
    for (unsigned i = 0; i < N_ROUTES; i++) {
        if (!routes[i].hook || strcmp(routes[i].abi_name, name) != 0)
            continue;
        *of_runtime = routes[i].is_runtime;
        return hook_of(&routes[i]);
    }
    return NULL;
}

/* Is this the variant for per-thread default streams? */
static bool is_per_thread(const struct route *route) {
    size_t n = strlen(route->abi_name);
    return n > 5 &&
           (!strcmp(route->abi_name + n - 5, "_ptsz") || !strcmp(route->abi_name + n - 5, "_ptds"));
}

/*
 * The row that (symbol, version, flags) names: the newest revision up to the version; with flag 2
 * the newest per-thread variant, if there is any.  cuda/symbols.def lists every revision of the
 * symbols that it hooks; about versions newer than its headers nothing is known.
 */
static const struct route *route_named(const char *symbol, int version, uint64_t flags) {
    const struct route *best[2] = {NULL, NULL};
    bool has_per_thread = false;
    if (version > CUDA_VERSION)
        return NULL;
    for (unsigned i = 0; i < N_ROUTES; i++) {
        const struct route *route = &routes[i];
        if (route->is_runtime || strcmp(route->symbol, symbol) != 0)
            continue;
        bool per_thread = is_per_thread(route);
        has_per_thread = has_per_thread || per_thread;
        if (route->since <= version &&
            (!best[per_thread] || route->since > best[per_thread]->since))
            best[per_thread] = route;
    }
    return best[has_per_thread && flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM];
}

/* The row at a place, or NULL at the end of the search. */
static const struct route *row_at(unsigned place) {
    unsigned row = atomic_load(&rows_by_address[place]);
    return row ? &routes[row - 1] : NULL;
}

static bool is_hook(const void *address) {
    const struct route *row;
    for (unsigned i = place_of(address); (row = row_at(i)); i = (i + 1) % N_PLACES)
        if (hook_of(row) == address)
            return true;
    return false;
}

/* The route of an answer, or NULL. */
static const struct route *route_of(const void *real, const char *symbol, int version,
                                    uint64_t flags) {
    const struct route *found = NULL, *named, *row;
    unsigned n_found = 0;
    for (unsigned i = place_of(real); (row = row_at(i)); i = (i + 1) % N_PLACES) {
        /* count it once, though a row is there twice, because of its hook */
        if (row != found && atomic_load(&addresses[row - routes]) == real) {
            found = row;
            n_found++;
        }
    }
    if (n_found == 1)
        return found;
    if (n_found == 0 && atomic_load(&cushim_page_calls.lookups.identity) != CUSHIM_IDENTITY_OTHER)
        return NULL;
    named = route_named(symbol, version, flags);
    if (!named || !named->hook)
        return NULL;
    if (n_found > 1 && atomic_load(&addresses[named - routes]) != real)
        return NULL;
    cushim_lookup_count(&cushim_page_calls.lookups.n_by_name);
    return named;
}

void *cushim_route_answer(void *real, const char *symbol, int version, uint64_t flags) {
    cushim_lookup_count(&cushim_page_calls.lookups.n_lookups);
    if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM || !symbol[0] || is_hook(real))
        return real;
    const struct route *route = route_of(real, symbol, version, flags);
    if (!route) {
        cushim_route_count_unhooked(symbol);
        return real;
    }
    cushim_lookup_count(&cushim_page_calls.lookups.n_routed);
    return hook_of(route);
}

void cushim_route_count_unhooked(const char *name) {
    static _Atomic uint64_t
        seen[N_NAMES]; /* hashes of names, open addressing; when full it counts no more */
    uint64_t hash = 0xcbf29ce484222325u;
    if (strncmp(name, "cuMem", 5) != 0)
        return;
    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    for (unsigned i = 0; i < N_NAMES; i++) {
        uint64_t expected = 0;
        _Atomic uint64_t *slot = &seen[(hash + i) % N_NAMES];
        if (atomic_compare_exchange_strong(slot, &expected, hash)) {
            cushim_lookup_count(&cushim_page_calls.lookups.n_unhooked);
            return;
        }
        if (expected == hash)
            return;
    }
}
