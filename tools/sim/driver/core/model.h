/* The kind of device that the software device is: CUSHIM_SIM_CAPABILITY, model.def. */
#pragma once

struct sim_model {
    int capability; /* 10 * major + minor */
    int n_multiprocessors, threads_of_multiprocessor;
    int shared_bytes_of_multiprocessor;
    int shared_bytes_of_block; /* static and dynamic, of a kernel whose limit was raised */
    int reserved_shared_bytes;
    int widest_cluster; /* blocks; 0: no clusters */
};

/* Of all devices.  A capability between two rows has the figures of the lower one. */
struct sim_model sim_model(void);
