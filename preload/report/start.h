/* The start of the process: what nobody can know later (interposition.md D3). */
#ifndef CUSHIM_PRELOAD_START_H
#define CUSHIM_PRELOAD_START_H

/* The folder of the process as it started, if a report is asked for whose name is relative to it;
 * else
 * "".  Static. */
const char *cushim_start_folder(void);

#endif
