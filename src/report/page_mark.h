/* Marks: moments that the program named, in its page.  Any number of threads may write. */
#pragma once

#include "report/page.h"

void cushim_page_mark_put(struct cushim_page *page, const struct cushim_page_mark *mark);

/* The i-th of those that a page keeps, the oldest first; in its name "?" replaces what is no text
 * of one line.  False if there is none, or it is being written. */
bool cushim_page_mark_get(const struct cushim_page *page, unsigned i,
                          struct cushim_page_mark *mark);
