#include "cuda/load.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { OPTIONAL = 0, REQUIRED = 1 };

/*
 * Threads that come first at once all write, each the same value into a slot, and publish the table
 * behind it.  gcc reads an _Atomic slot in a call plainly, so TSan sees a late writer's exchange as
 * a race with such a read; of one word with one value it is none.
 */
#define FILLER __attribute__((no_sanitize("thread")))

/* An address arrives as void *, and ISO C has no cast from it to a function: copy the bytes. */
#define FILL(table, abi, need)                                                                     \
    do {                                                                                           \
        void *address_ = find(#abi, cookie);                                                       \
        __typeof__(&abi) function_ = NULL;                                                         \
        if (address_) {                                                                            \
            memcpy(&function_, &address_, sizeof function_);                                       \
            __typeof__(&abi) seen_ = atomic_load_explicit(&(table)->abi, memory_order_acquire);    \
            if (seen_ !=                                                                           \
                function_) /* a slot that is right is not written again: it may be in use */       \
                atomic_compare_exchange_strong(&(table)->abi, &seen_, function_);                  \
        } else if ((need) == REQUIRED && !first_missing) {                                         \
            first_missing = #abi;                                                                  \
        }                                                                                          \
    } while (0);

#define FILL_DRV_HOOK(abi, need) FILL(cuda, abi, need)
#define FILL_DRV_CALL(abi, need) FILL(cuda, abi, need)
#define FILL_DRV_NATIVE(abi, need)
#define FILL_RT_HOOK(abi, need)
#define FILL_RT_CALL(abi, need)

FILLER enum cushim_status cushim_cuda_load(struct cushim_cuda *cuda, cushim_cuda_find_fn *find,
                                           void *cookie, const char **missing) {
    const char *first_missing = NULL;
#define SYM(role, api, abi, asked_as, since, need) FILL_##api##_##role(abi, need)
#include "cuda/symbols.def"
#undef SYM
    if (missing)
        *missing = first_missing;
    return first_missing ? CUSHIM_NOSYM : CUSHIM_OK;
}

#undef FILL_DRV_HOOK
#undef FILL_DRV_CALL
#undef FILL_RT_HOOK
#undef FILL_RT_CALL
#define FILL_DRV_HOOK(abi, need)
#define FILL_DRV_CALL(abi, need)
#define FILL_RT_HOOK(abi, need) FILL(cudart, abi, need)
#define FILL_RT_CALL(abi, need) FILL(cudart, abi, need)

FILLER enum cushim_status cushim_cudart_load(struct cushim_cudart *cudart,
                                             cushim_cuda_find_fn *find, void *cookie) {
    const char *first_missing = NULL;
#define SYM(role, api, abi, asked_as, since, need) FILL_##api##_##role(abi, need)
#include "cuda/symbols.def"
#undef SYM
    return first_missing ? CUSHIM_NOSYM : CUSHIM_OK;
}

/* Slots of threads inside a call must stay whole, so each is one atomic store. */
#define FILL_DRIVER_DRV(name, as, from)                                                            \
    do {                                                                                           \
        static const struct cushim_driver_row row_ = {#name, as, from};                            \
        void *address_ = find(&row_, cookie);                                                      \
        __typeof__(&name) function_ = NULL;                                                        \
        memcpy(&function_, &address_, sizeof function_);                                           \
        atomic_store_explicit(&driver->name, function_, memory_order_relaxed);                     \
    } while (0);
#define FILL_DRIVER_RT(name, as, from)

void cushim_driver_fill(struct cushim_driver *driver, cushim_driver_find_fn *find, void *cookie) {
#define SYM(role, api, abi, asked_as, since, need) FILL_DRIVER_##api(abi, asked_as, since)
#include "cuda/symbols.def"
#undef SYM
}

#define PART_DRV_HOOK(abi)                                                                         \
    atomic_store_explicit(&cuda->abi, atomic_load_explicit(&driver->abi, memory_order_relaxed),    \
                          memory_order_relaxed);
#define PART_DRV_CALL(abi) PART_DRV_HOOK(abi)
#define PART_DRV_NATIVE(abi)
#define PART_RT_HOOK(abi)
#define PART_RT_CALL(abi)

void cushim_driver_part(const struct cushim_driver *driver, struct cushim_cuda *cuda) {
#define SYM(role, api, abi, asked_as, since, need) PART_##api##_##role(abi)
#include "cuda/symbols.def"
#undef SYM
}

#define SLOT_DRV(name_)                                                                            \
    if (strcmp(name, #name_) == 0) {                                                               \
        __typeof__(&name_) function_ = atomic_load_explicit(&driver->name_, memory_order_relaxed); \
        memcpy(&address, &function_, sizeof address);                                              \
    }
#define SLOT_RT(name_)

void *cushim_driver_slot(const struct cushim_driver *driver, const char *name) {
    void *address = NULL;
#define SYM(role, api, abi, asked_as, since, need) SLOT_##api(abi)
#include "cuda/symbols.def"
#undef SYM
    return address;
}
