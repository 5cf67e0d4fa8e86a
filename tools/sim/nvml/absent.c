/* NVML's names that have no answer here. */
#include "nvml.h"

/* Whatever its arguments are: they stay with the caller, and are not looked at. */
static nvmlReturn_t refuse(void) {
    NVML_TRY(sim_nvml_ready());
    return NVML_ERROR_NOT_SUPPORTED;
}

#define ABSENT(name)                                                                               \
    SIM_EXPORT nvmlReturn_t name(void);                                                            \
    nvmlReturn_t name(void) {                                                                      \
        return refuse();                                                                           \
    }
#include "absent.def"
#undef ABSENT
