/* The start of the process: what nothing can know later (interposition.md D3). */
#ifndef CUSHIM_PRELOAD_START_H
#define CUSHIM_PRELOAD_START_H

/* The folder of the process at its start, if a report with a relative name is asked for; otherwise
 * "".  Static. */
const char *cushim_start_folder(void);

#endif
