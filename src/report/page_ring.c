#include "report/page_ring.h"

#include <string.h>

uint64_t cushim_page_ring_put(struct cushim_page_ring ring, atomic_uint_fast64_t *n_records,
                              const void *record) {
    uint64_t n = atomic_fetch_add_explicit(n_records, 1, memory_order_relaxed) + 1;
    atomic_uint_fast64_t *row = ring.rows + (n - 1) % ring.n_rows * ring.n_words;
    atomic_store_explicit(&row[ring.n_words - 1], n, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 1; i < ring.n_words - 1; i++) {
        uint64_t word;
        memcpy(&word, (const char *)record + (i - 1) * sizeof word, sizeof word);
        atomic_store_explicit(&row[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&row[0], n, memory_order_release);
    return n;
}

bool cushim_page_ring_get(struct cushim_page_ring ring, uint64_t n_records, unsigned i,
                          void *record) {
    uint64_t n_gone = n_records > ring.n_rows ? n_records - ring.n_rows : 0, n = n_gone + i + 1;
    const atomic_uint_fast64_t *row = ring.rows + (n - 1) % ring.n_rows * ring.n_words;
    if (i >= ring.n_rows || n > n_records ||
        atomic_load_explicit(&row[0], memory_order_acquire) != n)
        return false;
    for (size_t k = 1; k < ring.n_words - 1; k++) {
        uint64_t word = cushim_mem_stats_read(&row[k]);
        memcpy((char *)record + (k - 1) * sizeof word, &word, sizeof word);
    }
    atomic_thread_fence(memory_order_acquire);
    return cushim_mem_stats_read(&row[ring.n_words - 1]) == n;
}
