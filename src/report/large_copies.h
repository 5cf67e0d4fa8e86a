/* Large pageable copies in a report: who moved them, how fast, and what staging might gain. */
#ifndef CUSHIM_REPORT_LARGE_COPIES_H
#define CUSHIM_REPORT_LARGE_COPIES_H

#include "report/report.h"

/* What the driver's calls took where none was staged nor refused to be: staging is off.  It can
 * take no more than this away, since a call also waits for work that was queued before it. */
uint64_t cushim_large_copies_unstaged_ns(const struct cushim_report *report);

void cushim_large_copies_text(struct cushim_writer *out, const struct cushim_report *report);

/* The members "large_copies" and "staged", each with a comma behind it. */
void cushim_large_copies_json(struct cushim_writer *out, const struct cushim_report *report);

#endif
