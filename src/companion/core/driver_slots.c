#include "companion/core/driver_slots.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "companion/core/driver.h"
#include "cuda/table.h"

struct cushim_cuda cushim_driver_cuda;

#define SLOT_DRV(abi) CUSHIM_DRIVER_SLOT(abi) cushim_driver_##abi;
#define SLOT_RT(abi)
#define SYM(role, api, abi, asked_as, since, need) SLOT_##api(abi)
#include "cuda/symbols.def"
#undef SYM

/* A slot of any function type, as a word (see cuda/load.c). */
typedef uintptr_t word __attribute__((may_alias));

#define IN_CUDA_HOOK(abi)   offsetof(struct cushim_cuda, abi)
#define IN_CUDA_CALL(abi)   offsetof(struct cushim_cuda, abi)
#define IN_CUDA_NATIVE(abi) NOT_IN_CUDA

enum { NOT_IN_CUDA = UINT16_MAX };

#define ROW_DRV(role, abi, as, from) {{#abi, as, from}, &cushim_driver_##abi, IN_CUDA_##role(abi)},
#define ROW_RT(role, abi, as, from)

static const struct slot {
    struct cushim_driver_symbol row;
    void *slot;
    uint16_t in_cuda; /* offset of the same function in cushim_driver_cuda */
} slots[] = {
#define SYM(role, api, abi, asked_as, since, need) ROW_##api(role, abi, asked_as, since)
#include "cuda/symbols.def"
#undef SYM
};

enum { N_SLOTS = sizeof slots / sizeof slots[0] };

/* Other threads may be in a call and read the slots, so each store is atomic. */
void cushim_driver_slots_fill(cushim_driver_find_fn *find, const void *cookie) {
    for (unsigned i = 0; i < N_SLOTS; i++) {
        word address = (word)find(&slots[i].row, cookie);
        __atomic_store_n((word *)slots[i].slot, address, __ATOMIC_RELAXED);
        if (slots[i].in_cuda != NOT_IN_CUDA) {
            void *slot = (char *)&cushim_driver_cuda + slots[i].in_cuda;
            __atomic_store_n((word *)slot, address, __ATOMIC_RELAXED);
        }
    }
}

void *cushim_driver_slots_find(const char *name) {
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (strcmp(name, slots[i].row.abi) == 0)
            return (void *)__atomic_load_n((const word *)slots[i].slot, __ATOMIC_RELAXED);
    }
    return NULL;
}
