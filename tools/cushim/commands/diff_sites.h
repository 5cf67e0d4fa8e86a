/* The places of a program that hold memory, in two runs side by side. */
#pragma once

#include "tools/cushim/reports.h"

/* Add the places of a report, or of the recording that it comes from, to side 0 or 1. */
void diff_sites_add(int side, const struct cushim_report *report,
                    const struct report_origin *origin);

/*
 * Write a row for each place whose peak changed, the largest change first.  For samples the peak is
 * the most that was live at one time; for recordings it is what was live at the peak of the
 * device.  Two places are the same if two functions and their files are the same.  Writes nothing
 * if a side has no places, or if one side is sampled and the other is recorded.
 */
void diff_sites_put(struct cushim_writer *out);

/* Write the change from before to after: "+10.2 %", "new" and so on. */
void diff_change_text(char text[24], uint64_t before, uint64_t after);
