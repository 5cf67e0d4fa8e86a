#include "traits.h"

#include "symbol.h"

/* For a call of no special cost. */
enum { DEFAULT_NS = 200 };

static const struct sim_traits traits[SIM_N_SYMBOLS] = {
#define TRAIT(abi, bits, ns) [SIM_SYMBOL_##abi] = {bits, ns},
#include "traits.def"
#undef TRAIT
};

struct sim_traits sim_traits_of(unsigned symbol) {
    struct sim_traits found = traits[symbol];
    if (found.real_ns == 0)
        found.real_ns = DEFAULT_NS;
    return found;
}
