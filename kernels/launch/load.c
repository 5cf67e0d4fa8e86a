/* Load all families. */
#include "cushim/kernels.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"

enum cushim_status cushim_kernels_load(void) {
    static struct cushim_kernel_family *const families[] = {
#define FAMILY(name) &cushim_family_##name,
#include "kernels/launch/families.def"
#undef FAMILY
    };
    struct cushim_kernel_call call;
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
        CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, families[i], NULL));
    return CUSHIM_OK;
}
