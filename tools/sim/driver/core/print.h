/*
 * Output of kernels: kept on the device until the host synchronises, as on a GPU.
 *
 * Seen on an H100 and an H200, driver 580: waits for an event, a stream or a context bring it out,
 * also if the work was over before, and so does a free; queries, records and launches do not.  Here
 * one buffer serves all contexts.
 */
#pragma once

/* A kernel printed; output that does not fit into the buffer is lost. */
void sim_print(const char *text);

/* The host synchronised: write it to stdout. */
void sim_print_flush(void);
