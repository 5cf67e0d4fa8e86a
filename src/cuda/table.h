/*
 * The tables of real functions: one typed slot for each HOOK or CALL row of symbols.def.  The
 * companion also calls NATIVE rows, and has slots of its own (companion/core/driver.h).
 *
 * A slot is NULL until it is filled, and changes afterwards only if a libcuda is unloaded and
 * another one loaded. Several threads may fill a table at once, each with the same values, so no
 * lock is needed.  All code calls `cuda->cuMemAlloc_v2(...)`, never the bare name, which in the
 * preloaded object is our own hook.
 */
#pragma once

#include "cuda/types.h"

/* Which rows get a slot, by api and role. */
#define CUSHIM_SLOT(abi)          _Atomic(__typeof__(&abi)) abi;
#define CUSHIM_SLOT_DRV_HOOK(abi) CUSHIM_SLOT(abi)
#define CUSHIM_SLOT_DRV_CALL(abi) CUSHIM_SLOT(abi)
#define CUSHIM_SLOT_DRV_NATIVE(abi)
#define CUSHIM_SLOT_RT_HOOK(abi)
#define CUSHIM_SLOT_RT_CALL(abi)

struct cushim_cuda {
#define SYM(role, api, abi, asked_as, since, need) CUSHIM_SLOT_##api##_##role(abi)
#include "cuda/symbols.def"
#undef SYM
};

#undef CUSHIM_SLOT_DRV_HOOK
#undef CUSHIM_SLOT_DRV_CALL
#undef CUSHIM_SLOT_RT_HOOK
#undef CUSHIM_SLOT_RT_CALL
#define CUSHIM_SLOT_DRV_HOOK(abi)
#define CUSHIM_SLOT_DRV_CALL(abi)
#define CUSHIM_SLOT_RT_HOOK(abi) CUSHIM_SLOT(abi)
#define CUSHIM_SLOT_RT_CALL(abi) CUSHIM_SLOT(abi)

struct cushim_cudart {
#define SYM(role, api, abi, asked_as, since, need) CUSHIM_SLOT_##api##_##role(abi)
#include "cuda/symbols.def"
#undef SYM
};

#undef CUSHIM_SLOT_DRV_HOOK
#undef CUSHIM_SLOT_DRV_CALL
#undef CUSHIM_SLOT_DRV_NATIVE
#undef CUSHIM_SLOT_RT_HOOK
#undef CUSHIM_SLOT_RT_CALL

#undef CUSHIM_SLOT
