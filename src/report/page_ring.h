/*
 * Rings of a page: the last records of a kind, written by any thread, read while others write.
 *
 * A record has its number, from 1 on, at its start and at its end.  A writer stores the one at the
 * end first and the one at the start last; if a reader finds both the same, the record is complete.
 */
#pragma once

#include "report/page.h"

struct cushim_page_ring {
    atomic_uint_fast64_t *rows;
    unsigned n_rows;
    size_t n_words; /* of a row */
};

#define CUSHIM_PAGE_RING(rows)                                                                     \
    (struct cushim_page_ring) {                                                                    \
        &(rows)[0][0], sizeof(rows) / sizeof((rows)[0]), sizeof((rows)[0]) / sizeof((rows)[0][0])  \
    }

/* Add a record.  Returns its number. */
uint64_t cushim_page_ring_put(struct cushim_page_ring ring, atomic_uint_fast64_t *n_records,
                              const void *record);

/* The i-th of those that are kept, the oldest first; false if there is none, or it is being
 * written. */
bool cushim_page_ring_get(struct cushim_page_ring ring, uint64_t n_records, unsigned i,
                          void *record);
