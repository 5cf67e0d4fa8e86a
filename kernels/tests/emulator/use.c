/*
 * A name of the library of emulated kernels, so that the linker keeps it, because only dlsym uses
 * it.
 */
#include "tools/sim/sim.h"

extern const int *const kernels_are_emulated;
const int *const kernels_are_emulated = &sim_fatbin_kernels;
