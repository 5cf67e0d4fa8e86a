/* Large pageable copies in a report: what moved them, how fast, and what staging might gain. */
#pragma once

#include "report/report.h"

/* The time of the driver's calls, if no copy was staged or refused to be, which means that staging
 * is off.  Staging can save no more than this, because a call also waits for work that was queued
 * before it. */
uint64_t cushim_large_copies_unstaged_ns(const struct cushim_report *report);

void cushim_large_copies_text(struct cushim_writer *out, const struct cushim_report *report);

/* The members "large_copies" and "staged", each followed by a comma. */
void cushim_large_copies_json(struct cushim_writer *out, const struct cushim_report *report);
