/*
 * The host's side of a piece: its pages are checked, then the processor copies it.
 *
 * The program may hand over memory that is not mapped or not writable.  So the kernel is asked to
 * populate the pages (MADV_POPULATE_READ and _WRITE, Linux 5.14): it populates those that the copy
 * would fault in anyway, and refuses all others without a signal.  If a thread unmaps memory during
 * its copy, our copy faults, where the driver's would fault without cushim.
 */
#pragma once

#include "copy/box.h"

/* Does the kernel know these calls?  Not before Linux 5.14, nor in some sandboxes. */
bool cushim_copy_host_can_look(void);

/* May the host's end of a piece be read, or written? */
bool cushim_copy_host_is_there(const struct cushim_copy_cut *cut,
                               const struct cushim_copy_piece *piece);

/* Copy rows into a buffer, in which they have no gaps, or back. */
void cushim_copy_host_read(const struct cushim_copy_cut *cut, const struct cushim_copy_piece *piece,
                           char *buffer);
void cushim_copy_host_write(const struct cushim_copy_cut *cut,
                            const struct cushim_copy_piece *piece, const char *buffer);
