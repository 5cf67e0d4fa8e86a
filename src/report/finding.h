/* Findings of the check, as a page keeps them: the last ones, with their stacks. */
#pragma once

#include "report/report.h"

/* The i-th of those that a page keeps, the oldest first; its texts end whatever is in the page.
 * False: there is none, or it is being written. */
bool cushim_finding_get(const struct cushim_page *page, unsigned i,
                        struct cushim_page_finding *finding);

/* For people: a section; for programs: the members `harms`, `n_harms` and `unchecked`. */
void cushim_finding_text(struct cushim_writer *out, const struct cushim_report *report);
void cushim_finding_json(struct cushim_writer *out, const struct cushim_report *report);
