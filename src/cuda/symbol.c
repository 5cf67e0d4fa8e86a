#include "cuda/symbol.h"

#define NAME_HOOK(abi) [CUSHIM_SYMBOL_##abi] = #abi,
#define NAME_CALL(abi)
#define NAME_NATIVE(abi)

static const char *const names[CUSHIM_N_SYMBOLS] = {
#define SYM(role, api, abi, asked_as, since, need) NAME_##role(abi)
#include "cuda/symbols.def"
#undef SYM
};

const char *cushim_cuda_symbol_name(unsigned row) {
    return row < CUSHIM_N_SYMBOLS ? names[row] : "?";
}
