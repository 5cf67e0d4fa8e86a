/*
 * The report of this process: its page, and what only it knows (interposition.md D6: no CUDA call,
 * nothing torn down).
 */
#pragma once

#include "report/report.h"

/* Read all counters, without a CUDA call. */
void cushim_own_read(struct cushim_report *own);

/* The same for the end of the process.  One thread; valid until it is read again. */
const struct cushim_report *cushim_own_report(void);

/* For the log, at level info: what was asked for, and how much of it was pooled. */
void cushim_own_tell(void);

/* What a page does not have: all findings of the check, the calls by name and the look-ups. */
void cushim_own_json(struct cushim_writer *out);
