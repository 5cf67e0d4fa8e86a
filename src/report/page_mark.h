/* Marks: moments that the program named, in its page.  Any thread writes one; so do several. */
#ifndef CUSHIM_REPORT_PAGE_MARK_H
#define CUSHIM_REPORT_PAGE_MARK_H

#include <stdbool.h>

#include "report/page.h"

struct cushim_page_mark {
    uint64_t ns; /* of cushim_clock_ns */
    uint64_t live_bytes, held_bytes;
    char name[CUSHIM_MARK_WORDS * 8]; /* what is no text of one line is "?" in it */
};

/* Enter a mark; of its name, what fits. */
void cushim_page_mark_put(struct cushim_page *page, const struct cushim_page_mark *mark);

/* The i-th of those that a page keeps, the oldest first; false where it has none, or one that is
 * being written. */
bool cushim_page_mark_get(const struct cushim_page *page, unsigned i,
                          struct cushim_page_mark *mark);

#endif
