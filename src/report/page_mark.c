#include "report/page_mark.h"

#include "base/utf8.h"
#include "report/page_ring.h"

void cushim_page_mark_put(struct cushim_page *page, const struct cushim_page_mark *mark) {
    cushim_page_ring_put(CUSHIM_PAGE_RING(page->marks), &page->n_marks, mark);
}

bool cushim_page_mark_get(const struct cushim_page *page, unsigned i,
                          struct cushim_page_mark *mark) {
    struct cushim_page *readable = (struct cushim_page *)page; /* rings are also written */
    if (!cushim_page_ring_get(CUSHIM_PAGE_RING(readable->marks),
                              cushim_mem_stats_read(&page->n_marks), i, mark))
        return false;
    cushim_utf8_end(mark->name, sizeof mark->name);
    return true;
}
