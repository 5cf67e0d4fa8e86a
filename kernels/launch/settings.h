/*
 * What the environment sets for kernels: CUSHIM_KERNEL_ARCH and CUSHIM_KERNEL_PDL
 * (kernels/docs/kernels.md).
 */
#ifndef CUSHIM_KERNELS_SETTINGS_H
#define CUSHIM_KERNELS_SETTINGS_H

#include <stdbool.h>

struct cushim_kernel_settings {
    int arch;      /* 75, 80, 89 or 90: the path to take if the device can; 0: the device's own */
    bool is_cpu;   /* run the references */
    bool has_arch; /* CUSHIM_KERNEL_ARCH set one of these two */
    bool has_pdl;  /* true unless CUSHIM_KERNEL_PDL=0 */
    const char *wrong; /* the value of CUSHIM_KERNEL_ARCH if it is wrong, else NULL */
};

/* Read once, at the first use.  Any thread may call this. */
const struct cushim_kernel_settings *cushim_kernel_settings(void);

#endif
