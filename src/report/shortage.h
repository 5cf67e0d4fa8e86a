/*
 * A shortage: a request that found no memory, with the state at that moment, its stack, and what
 * may help.
 */
#pragma once

#include "report/report.h"

/* The i-th of those that a page keeps, the oldest first, with its number from 1 on; its texts end
 * whatever is in the page.  0: there is none, or it is being written. */
uint64_t cushim_shortage_get(const struct cushim_page *page, unsigned i,
                             struct cushim_page_shortage *shortage);

/* For people: a line, or a section with it.  `head` has the options of its process; `is_live`: it
 * runs and has a live page, so that `cushim limit` reaches it. */
void cushim_shortage_line(struct cushim_writer *out, uint64_t number,
                          const struct cushim_page_shortage *shortage);
void cushim_shortage_text(struct cushim_writer *out, uint64_t number,
                          const struct cushim_page_shortage *shortage,
                          const struct cushim_page_head *head, bool is_live,
                          cushim_report_find_line_fn *find_line);

/* For programs: all that the page of a report keeps, as a member. */
void cushim_shortage_json(struct cushim_writer *out, const struct cushim_report *report);
