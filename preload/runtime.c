/*
 * The runtimes' tables: one for each libcudart in the process, since a program may hold several and
 * each has its own last error.
 *
 * Which one a call means is decided once a call site.  A site and the number of its table share one
 * word, so that the usual case is one load and one compare.  Where no libcudart.so is loaded the
 * call was meant for another library that exports the runtime's names, and behind us in load order
 * it is found.
 */
#include "preload/lookup.h"

#include <stddef.h>

#include "base/bits.h"
#include "cuda/load.h"

enum {
    MAX_RUNTIMES = 8,
    LOG2_SITES = 8,
    N_SITES = 1 << LOG2_SITES,
    LOG2_SLOTS = 4,
    MAX_OBJECTS = 64
};

static struct cushim_cudart tables[MAX_RUNTIMES];
static _Atomic(const Elf64_Dyn *) owners[MAX_RUNTIMES]; /* whose table it is; claimed once */
static _Atomic uint64_t sites[N_SITES];                 /* address << LOG2_SLOTS | table + 1 */
static _Atomic(const Elf64_Dyn *) preferred;            /* the one dlsym was last asked for */

/* A preload behind us that hooks the runtime stands between us and it. */
static void *find(const char *name, void *object) {
    void *interposed = cushim_object_interposed(name, "libcudart");
    return interposed ? interposed : cushim_object_symbol(object, name);
}

/* The number of an object's table, filled; -1: all are taken. */
static int table_of(const struct cushim_object *object) {
    struct cushim_object copy = *object;
    for (int i = 0; i < MAX_RUNTIMES; i++) {
        const Elf64_Dyn *owner = NULL;
        if (!atomic_compare_exchange_strong(&owners[i], &owner, object->dynamic) &&
            owner != object->dynamic)
            continue;
        cushim_cudart_load(&tables[i], find, &copy);
        return i;
    }
    return -1;
}

/* Which of several is meant by code in `from`? */
static unsigned choose(const struct cushim_object *found, unsigned n,
                       const struct cushim_object *from) {
    const Elf64_Dyn *asked = atomic_load(&preferred);
    for (unsigned i = 0; i < n; i++)
        if (found[i].dynamic == from->dynamic ||
            cushim_object_needs(from, cushim_object_base_name(&found[i])))
            return i;
    for (unsigned i = 0; i < n; i++)
        if (found[i].dynamic == asked)
            return i;
    return 0;
}

/* Objects behind us in load order with the runtime's names: what the call was meant for. */
static unsigned list_strangers(struct cushim_object *found) {
    static const char anchor = 0;
    struct cushim_object us;
    unsigned n = cushim_object_list("", "cudaMalloc", found, MAX_OBJECTS);
    if (n > MAX_OBJECTS)
        n = MAX_OBJECTS;
    if (!cushim_object_at(&anchor, &us))
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (found[i].dynamic == us.dynamic) {
            for (unsigned behind = i + 1; behind < n; behind++)
                found[behind - i - 1] = found[behind];
            return n - i - 1;
        }
    return 0;
}

static struct cushim_cudart *search(const void *caller, _Atomic uint64_t *site) {
    struct cushim_object found[MAX_OBJECTS], from = {0, "", NULL};
    unsigned n = cushim_object_list("libcudart", "cudaMalloc", found, MAX_OBJECTS);
    if (!n)
        n = list_strangers(found);
    if (!n)
        return NULL;
    if (n > MAX_OBJECTS)
        n = MAX_OBJECTS;
    if (n > 1)
        cushim_object_at(caller, &from);
    int i = table_of(&found[n > 1 ? choose(found, n, &from) : 0]);
    if (i < 0)
        return NULL;
    atomic_store_explicit(site, (uint64_t)(uintptr_t)caller << LOG2_SLOTS | ((unsigned)i + 1),
                          memory_order_release);
    return &tables[i];
}

struct cushim_cudart *cushim_runtime(const void *caller) {
    uint64_t address = (uintptr_t)caller;
    _Atomic uint64_t *site = &sites[cushim_hash(address, LOG2_SITES)];
    uint64_t word = atomic_load_explicit(site, memory_order_acquire);
    if (word && word >> LOG2_SLOTS == address)
        return &tables[(word & ((1u << LOG2_SLOTS) - 1)) - 1];
    return search(caller, site);
}

bool cushim_runtime_is_interposed(void) {
    static const char *const names[] = {"cudaMalloc",     "cudaFree",      "cudaMallocManaged",
                                        "cudaMallocHost", "cudaHostAlloc", "cudaFreeHost"};
    enum { UNKNOWN, YES, NO };
    static atomic_int answer; /* preloads never change */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == UNKNOWN) {
        known = NO;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (cushim_object_interposed(names[i], "libcudart"))
                known = YES;
        }
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == YES;
}

bool cushim_runtime_adopt(const struct cushim_object *object) {
    if (table_of(object) < 0)
        return false;
    atomic_store(&preferred, object->dynamic);
    return true;
}
