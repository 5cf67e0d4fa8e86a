/*
 * The runtimes' tables: one for each libcudart in the process, because a program may have several
 * and each has its own last error.
 *
 * Which one a call means is decided once for each page of code (callers.h).  If no libcudart.so is
 * loaded, the call was meant for another library that exports the runtime's names, which is found
 * behind us in load order.  A table goes with its library, and serves the next one
 * (preload/resolve/unload.h).
 */
#include "cuda/table.h"
#include "preload/resolve/lookup.h"

#include <pthread.h>
#include <stddef.h>

#include "cuda/load.h"
#include "preload/resolve/callers.h"
#include "preload/resolve/fork.h"

enum { MAX_RUNTIMES = 8, MAX_OBJECTS = 64 };

/* Written under the lock while forks are held off; no foreign code is called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct runtime {
    struct cushim_cudart table;
    const Elf64_Dyn *dynamic; /* of its object; NULL: free */
    const char *name;
    uint64_t age; /* in which it was filled */
} runtimes[MAX_RUNTIMES];

static _Atomic(const Elf64_Dyn *) preferred; /* the one dlsym was last asked for */

/* A preload behind us that hooks the runtime is between us and it. */
static void *find(const char *name, void *object) {
    void *interposed = cushim_object_interposed(name, "libcudart");
    return interposed ? interposed : cushim_object_symbol(object, name);
}

/* The caller holds the lock.  An object's table or a free one; NULL: all are taken. */
static struct runtime *find_or_claim(const struct cushim_object *object) {
    struct runtime *unused = NULL;
    for (struct runtime *runtime = runtimes; runtime < runtimes + MAX_RUNTIMES; runtime++) {
        if (runtime->dynamic == object->dynamic)
            return runtime;
        if (!runtime->dynamic && !unused)
            unused = runtime;
    }
    return unused;
}

/* The number of an object's table, filled; -1: all are taken. */
static int table_of(const struct cushim_object *object, uint64_t age) {
    struct cushim_object copy = *object;
    cushim_runtime_is_interposed(); /* the first call asks the loader, which must not happen
                                       under the lock */
    bool is_held_off = cushim_fork_hold_off();
    pthread_mutex_lock(&lock);
    struct runtime *runtime = find_or_claim(object);
    /* in another age it may be another object at the same place */
    if (runtime && (runtime->dynamic != object->dynamic || runtime->age != age)) {
        cushim_cudart_load(&runtime->table, find, &copy);
        runtime->dynamic = object->dynamic;
        runtime->name = object->name;
        runtime->age = age;
    }
    pthread_mutex_unlock(&lock);
    cushim_fork_let_go(is_held_off);
    return runtime ? (int)(runtime - runtimes) : -1;
}

static struct cushim_object owner_of(const struct runtime *runtime) {
    bool is_held_off = cushim_fork_hold_off();
    pthread_mutex_lock(&lock);
    struct cushim_object owner = {0, runtime->name, runtime->dynamic};
    pthread_mutex_unlock(&lock);
    cushim_fork_let_go(is_held_off);
    return owner;
}

static void let_go(struct runtime *runtime, const struct cushim_object *owner) {
    const Elf64_Dyn *asked = owner->dynamic;
    bool is_held_off = cushim_fork_hold_off();
    pthread_mutex_lock(&lock);
    if (runtime->dynamic == owner->dynamic && runtime->name == owner->name)
        runtime->dynamic = NULL;
    pthread_mutex_unlock(&lock);
    cushim_fork_let_go(is_held_off);
    atomic_compare_exchange_strong(&preferred, &asked, NULL);
}

void cushim_runtime_settle(void) {
    for (struct runtime *runtime = runtimes; runtime < runtimes + MAX_RUNTIMES; runtime++) {
        struct cushim_object owner = owner_of(runtime);
        if (owner.dynamic && !cushim_object_is_loaded(&owner))
            let_go(runtime, &owner);
    }
}

/* Which of several does code in `from` mean? */
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

/* Objects behind us in load order with the runtime's names: the call was meant for one of them. */
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

static struct cushim_cudart *search(const void *caller) {
    struct cushim_object found[MAX_OBJECTS], from = {0, "", NULL};
    cushim_unload_settle();
    uint64_t age = cushim_callers_age();
    unsigned n = cushim_object_list("libcudart", "cudaMalloc", found, MAX_OBJECTS);
    if (!n)
        n = list_strangers(found);
    if (!n)
        return NULL;
    if (n > MAX_OBJECTS)
        n = MAX_OBJECTS;
    if (n > 1)
        cushim_object_at(caller, &from);
    int i = table_of(&found[n > 1 ? choose(found, n, &from) : 0], age);
    if (i < 0)
        return NULL;
    cushim_callers_note(caller, age, (unsigned)i + 1);
    return &runtimes[i].table;
}

struct cushim_cudart *cushim_runtime(const void *caller) {
    /* in this order: if no library is being unloaded any more, the age after the last unload is
     * visible */
    bool is_stable = !cushim_unload_is_under_way();
    unsigned number = cushim_callers_facts(caller) & CUSHIM_CALLERS_RUNTIME;
    return number && is_stable ? &runtimes[number - 1].table : search(caller);
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
    cushim_unload_settle();
    if (table_of(object, cushim_callers_age()) < 0)
        return false;
    atomic_store(&preferred, object->dynamic);
    return true;
}
