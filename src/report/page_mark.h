/* Marks: moments that the program named, in its page.  Any thread writes one; so do several. */
#ifndef CUSHIM_REPORT_PAGE_MARK_H
#define CUSHIM_REPORT_PAGE_MARK_H

#include <stdbool.h>

#include "report/page.h"

void cushim_page_mark_put(struct cushim_page *page, const struct cushim_page_mark *mark);

/* The i-th of those that a page keeps, the oldest first; what is no text of one line is "?" in its
 * name.  False where there is none, or it is being written. */
bool cushim_page_mark_get(const struct cushim_page *page, unsigned i,
                          struct cushim_page_mark *mark);

#endif
