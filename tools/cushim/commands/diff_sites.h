/* The places in a program that hold memory, of two runs, side by side. */
#ifndef CUSHIM_TOOLS_DIFF_SITES_H
#define CUSHIM_TOOLS_DIFF_SITES_H

#include "tools/cushim/reports.h"

struct diff_sites;

/* NULL: there is no memory. */
struct diff_sites *diff_sites_new(void);
void diff_sites_free(struct diff_sites *sites);

/* Add those of a report, or of the recording with this name, to side 0 or 1. */
void diff_sites_add(struct diff_sites *sites, int side, const struct cushim_report *report,
                    const struct report_origin *origin);

/*
 * A row for each place whose peak changed, the largest change first.  For samples the peak is the
 * most that was live of the place at one time, for recordings what was live of it at the peak of
 * its device. Two places are the same if two functions and their files are.  Writes nothing if a
 * side has none, or if one is sampled and the other is recorded.
 */
void diff_sites_put(struct cushim_writer *out, struct diff_sites *sites);

/* "+10.2 %", "new" and so on, for a change from before to after. */
void diff_change_text(char text[24], uint64_t before, uint64_t after);

#endif
