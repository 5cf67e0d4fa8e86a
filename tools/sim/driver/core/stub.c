/*
 * Every row of cuda/symbols.def is exported: those that no file here implements are these weak
 * stubs. They are for names that programs look up and do not call.  A call is
 * CUDA_ERROR_NOT_SUPPORTED, and not counted.  Each has an address of its own, and may be patched
 * like a driver's.
 */
#include "abi.h"
#include "cuda/patchable.h"

__attribute__((visibility("hidden"), used)) CUresult sim_stub(void);
CUresult sim_stub(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define STUB_DRV(abi) CUSHIM_PATCHABLE_TO(#abi, ".weak", "sim_stub")
#define STUB_RT(abi)
#define SYM(role, api, abi, asked_as, since, need) STUB_##api(abi)
#include "cuda/symbols.def"
#undef SYM
