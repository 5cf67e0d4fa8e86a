#include "report/page_mark.h"

#include <string.h>

#include "base/utf8.h"

static void set(atomic_uint_fast64_t *word, uint64_t to) {
    atomic_store_explicit(word, to, memory_order_relaxed);
}

void cushim_page_mark_put(struct cushim_page *page, const struct cushim_page_mark *mark) {
    uint64_t n = atomic_fetch_add_explicit(&page->n_marks, 1, memory_order_relaxed) + 1;
    struct cushim_page_mark_row *row = &page->marks[(n - 1) % CUSHIM_PAGE_MARKS];
    uint64_t name[CUSHIM_MARK_WORDS];
    memcpy(name, mark->name, sizeof name);
    set(&row->n_begun, n);
    atomic_thread_fence(memory_order_release);
    set(&row->ns, mark->ns);
    set(&row->live_bytes, mark->live_bytes);
    set(&row->held_bytes, mark->held_bytes);
    for (int i = 0; i < CUSHIM_MARK_WORDS; i++)
        set(&row->name[i], name[i]);
    atomic_store_explicit(&row->n_whole, n, memory_order_release);
}

bool cushim_page_mark_get(const struct cushim_page *page, unsigned i,
                          struct cushim_page_mark *mark) {
    uint64_t n_marks = cushim_mem_stats_read(&page->n_marks);
    uint64_t n_gone = n_marks > CUSHIM_PAGE_MARKS ? n_marks - CUSHIM_PAGE_MARKS : 0;
    uint64_t n = n_gone + i + 1, name[CUSHIM_MARK_WORDS];
    const struct cushim_page_mark_row *row = &page->marks[(n - 1) % CUSHIM_PAGE_MARKS];
    if (i >= CUSHIM_PAGE_MARKS || n > n_marks ||
        atomic_load_explicit(&row->n_whole, memory_order_acquire) != n)
        return false;
    mark->ns = cushim_mem_stats_read(&row->ns);
    mark->live_bytes = cushim_mem_stats_read(&row->live_bytes);
    mark->held_bytes = cushim_mem_stats_read(&row->held_bytes);
    for (int word = 0; word < CUSHIM_MARK_WORDS; word++)
        name[word] = cushim_mem_stats_read(&row->name[word]);
    memcpy(mark->name, name, sizeof mark->name);
    mark->name[sizeof mark->name - 1] = 0;
    cushim_utf8_clean(mark->name);
    atomic_thread_fence(memory_order_acquire);
    return cushim_mem_stats_read(&row->n_begun) == n;
}
