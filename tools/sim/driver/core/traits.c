#include "traits.h"

/* A call of no special cost. */
enum { USUAL_NS = 200 };

static const struct sim_traits traits[SIM_N_ROWS] = {
#define TRAIT(abi, bits, ns) [SIM_ROW_##abi] = {bits, ns},
#include "traits.def"
#undef TRAIT
};

struct sim_traits sim_traits_of(enum sim_row row) {
    struct sim_traits found = traits[row];
    if (found.real_ns == 0)
        found.real_ns = USUAL_NS;
    return found;
}
