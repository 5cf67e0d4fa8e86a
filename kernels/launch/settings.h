/* What the environment says of kernels: CUSHIM_KERNEL_ARCH and CUSHIM_KERNEL_PDL
 * (kernels/docs/kernels.md).
 */
#ifndef CUSHIM_KERNELS_SETTINGS_H
#define CUSHIM_KERNELS_SETTINGS_H

#include <stdbool.h>

struct cushim_kernel_settings {
    int arch;    /* 75, 80, 89 or 90: the path to take where the device can; 0: the device's own */
    bool is_cpu; /* run the references */
    bool has_arch;     /* one of the two was said */
    bool has_pdl;      /* true unless CUSHIM_KERNEL_PDL=0 */
    const char *wrong; /* a word for the path that is none of these; NULL: none */
};

/* Read once, at the first use.  Threads  any. */
const struct cushim_kernel_settings *cushim_kernel_settings(void);

#endif
