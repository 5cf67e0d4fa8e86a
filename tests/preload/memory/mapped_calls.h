/* What all suites of mapped memory give to its calls, and what cushim counts. */
#pragma once

#include <dlfcn.h>

#include "cushim/preload.h"
#include "tests/preload/fixture/fixture.h"

enum { PAGE = 2 * MIB };

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .requestedHandleTypes =
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc for_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* What cushim counts of a kind. */
static inline struct cushim_preload_stats counted(int kind) {
    struct cushim_preload_stats stats = {.struct_size = sizeof stats};
    int (*ask)(int, int, struct cushim_preload_stats *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "cushim_preload_stats");
    ck_assert(ask && ask(-1, kind, &stats) == 0);
    return stats;
}
