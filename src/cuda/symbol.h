/* Numbers for the HOOK rows of symbols.def, driver and runtime: the index of a call counter. */
#pragma once

#include "cuda/symbol_name.h"

#define CUSHIM_SYMBOL_HOOK(abi) CUSHIM_SYMBOL_##abi,
#define CUSHIM_SYMBOL_CALL(abi)
#define CUSHIM_SYMBOL_NATIVE(abi)

enum cushim_cuda_symbol {
#define SYM(role, api, abi, asked_as, since, need) CUSHIM_SYMBOL_##role(abi)
#include "cuda/symbols.def"
#undef SYM
    CUSHIM_N_SYMBOLS
};

#undef CUSHIM_SYMBOL_HOOK
#undef CUSHIM_SYMBOL_CALL
#undef CUSHIM_SYMBOL_NATIVE
