/*
 * Every row of symbols.def is exported: those that no file here implements are these weak stubs.
 * They are for names that programs look up and do not call; a call is CUDA_ERROR_NOT_SUPPORTED, and
 * not counted.
 */
#include "abi.h"

/* The stub takes no arguments, whatever the row's function takes; clang does not ask. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif

CUresult sim_stub(void);

__attribute__((visibility("hidden"))) CUresult sim_stub(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define STUB_DRV(abi) __typeof__(abi) abi __attribute__((weak, alias("sim_stub")));
#define STUB_RT(abi)
#define SYM(role, api, abi, asked_as, since, need) STUB_##api(abi)
#include "cuda/symbols.def"
#undef SYM
