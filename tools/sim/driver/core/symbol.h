/* Numbers for the driver's rows of cuda/symbols.def, whatever their role: every exported name has
 * one. */
#pragma once

#define SIM_SYMBOL_OF_DRV(abi) SIM_SYMBOL_##abi,
#define SIM_SYMBOL_OF_RT(abi)

enum sim_symbol {
#define SYM(role, api, abi, asked_as, since, need) SIM_SYMBOL_OF_##api(abi)
#include "cuda/symbols.def"
#undef SYM
    SIM_N_SYMBOLS
};

#undef SIM_SYMBOL_OF_DRV
#undef SIM_SYMBOL_OF_RT
