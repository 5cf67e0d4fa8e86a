/* The devices that a program sees, and their order: CUDA_VISIBLE_DEVICES. */
#pragma once

/*
 * The numbers of the devices that `text` names, out of n_all; NULL: all.  Returns their number.
 * The list ends before the first entry that is no device; it is empty if it names a device twice.
 */
int sim_visible_devices(const char *text, int n_all, int *numbers);
