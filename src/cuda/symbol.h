/* Numbers for the HOOK rows of symbols.def, driver and runtime: the index of a call counter. */
#ifndef CUSHIM_CUDA_ROW_H
#define CUSHIM_CUDA_ROW_H

#define CUSHIM_ROW_HOOK(abi) CUSHIM_ROW_##abi,
#define CUSHIM_ROW_CALL(abi)
#define CUSHIM_ROW_NATIVE(abi)

enum cushim_row {
#define SYM(role, api, abi, asked_as, since, need) CUSHIM_ROW_##role(abi)
#include "cuda/symbols.def"
#undef SYM
    CUSHIM_N_ROWS
};

#undef CUSHIM_ROW_HOOK
#undef CUSHIM_ROW_CALL
#undef CUSHIM_ROW_NATIVE

/* The exported name of a row; never NULL. */
const char *cushim_row_name(enum cushim_row row);

#endif
