/* Numbers for the driver's rows of symbols.def, whatever their role: every exported name has one.
 */
#ifndef CUSHIM_SIM_ROW_H
#define CUSHIM_SIM_ROW_H

#define SIM_ROW_OF_DRV(abi) SIM_ROW_##abi,
#define SIM_ROW_OF_RT(abi)

enum sim_row {
#define SYM(role, api, abi, asked_as, since, need) SIM_ROW_OF_##api(abi)
#include "cuda/symbols.def"
#undef SYM
    SIM_N_ROWS
};

#undef SIM_ROW_OF_DRV
#undef SIM_ROW_OF_RT

#endif
