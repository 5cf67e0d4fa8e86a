/*
 * Counts the mutexes and locks that cushim's libraries take, and their calls of sched_yield. The
 * shim is preloaded before libc and recognises them by the caller's address.
 */
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct { uintptr_t low, high; } ranges[8];
static atomic_int n_ranges = -1; /* -1: not looked up yet */
static atomic_ulong n_mutexes, n_rwlocks, n_yields;

static int note_library(struct dl_phdr_info *info, size_t size, void *n) {
    int *at = n;
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (*at == 8 || !name || strncmp(name, "/libcushim", 10) != 0)
        return 0;
    ranges[*at].low = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > ranges[*at].high)
            ranges[*at].high = end;
    }
    ++*at;
    return 0;
}

EXPORT void shim_begin(void) {
    int n = 0;
    dl_iterate_phdr(note_library, &n);
    atomic_store(&n_ranges, n);
    n_mutexes = n_rwlocks = n_yields = 0;
}

EXPORT void shim_end(struct shim_counts *counts) {
    *counts = (struct shim_counts){n_mutexes, n_rwlocks, n_yields};
}

static void count(atomic_ulong *counter, const void *caller) {
    for (int i = atomic_load(&n_ranges); i-- > 0;) {
        if ((uintptr_t)caller >= ranges[i].low && (uintptr_t)caller < ranges[i].high)
            atomic_fetch_add(counter, 1);
    }
}

/* dlvsym, because the preload replaces dlsym. The versions are those of x86-64 and of aarch64. */
static void find(void *into, const char *name, const char *since) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = dlvsym(RTLD_NEXT, name, since);
    for (int i = 0; !found && i < 3; i++)
        found = dlvsym(RTLD_NEXT, name, versions[i]);
    memcpy(into, &found, sizeof found);
}

#define WRAP(name, counter, argument)                                                              \
    EXPORT int name(argument *lock) {                                                              \
        static int (*_Atomic next)(argument *);                                                    \
        int (*call)(argument *) = atomic_load_explicit(&next, memory_order_relaxed);               \
        if (!call) {                                                                               \
            find(&call, #name, "GLIBC_2.2.5");                                                     \
            atomic_store_explicit(&next, call, memory_order_relaxed);                              \
        }                                                                                          \
        count(&counter, __builtin_return_address(0));                                              \
        return call(lock);                                                                         \
    }

WRAP(pthread_mutex_lock, n_mutexes, pthread_mutex_t)
WRAP(pthread_mutex_trylock, n_mutexes, pthread_mutex_t)
WRAP(pthread_rwlock_rdlock, n_rwlocks, pthread_rwlock_t)
WRAP(pthread_rwlock_wrlock, n_rwlocks, pthread_rwlock_t)

EXPORT int sched_yield(void) {
    static int (*_Atomic next)(void);
    int (*call)(void) = atomic_load_explicit(&next, memory_order_relaxed);
    if (!call) {
        find(&call, "sched_yield", "GLIBC_2.2.5");
        atomic_store_explicit(&next, call, memory_order_relaxed);
    }
    count(&n_yields, __builtin_return_address(0));
    return call();
}
