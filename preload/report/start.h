/* The start of the process: what nothing can know later (interposition.md D3). */
#pragma once

/* The folder of the process at its start, if a report with a relative name is asked for; otherwise
 * "".  Static. */
const char *cushim_start_folder(void);
