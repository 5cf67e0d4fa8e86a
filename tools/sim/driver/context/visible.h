/* Which devices a program sees, and in which order: CUDA_VISIBLE_DEVICES. */
#ifndef CUSHIM_SIM_VISIBLE_H
#define CUSHIM_SIM_VISIBLE_H

/*
 * The numbers of the devices that `text` names, out of n_all; NULL: all.  Returns how many.  The
 * list ends before the first entry that is no device; one that names a device twice has none.
 */
int sim_visible_devices(const char *text, int n_all, int *numbers);

#endif
