/*
 * What kernels print: kept on the device until the host synchronises, as a GPU keeps it.
 *
 * Seen on an H100 and an H200, driver 580: waits for an event, a stream or a context bring it out
 * where the work was over before, too, and so does a free; queries, records and launches do not.
 * Here one buffer is for all contexts.
 */
#ifndef CUSHIM_SIM_PRINT_H
#define CUSHIM_SIM_PRINT_H

/* A kernel printed; what has no place in the buffer any more is lost. */
void sim_print(const char *text);

/* The host synchronised: on stdout. */
void sim_print_flush(void);

#endif
