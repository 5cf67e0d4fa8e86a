/* Tables of address ranges in order: of mappings, or of reservations.  The caller holds a lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/types.h"

struct cushim_mapped_memory;

/* What the program mapped, or reserved without a hint. */
struct cushim_row {
    CUdeviceptr address;
    size_t n_bytes, align_bytes;
    struct cushim_mapped_memory *memory; /* of a reservation: that is kept there, or NULL */
    const void *leaver;                  /* the thread that is about to unmap it */
};

struct cushim_rows {
    struct cushim_row *row;
    size_t n, most;
};

/* The first that ends above this address. */
static inline size_t cushim_rows_place(const struct cushim_rows *rows, CUdeviceptr address) {
    size_t low = 0, high = rows->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows->row[middle].address + rows->row[middle].n_bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the row at this place begin in the range, or reach into it? */
static inline bool cushim_rows_reach(const struct cushim_rows *rows, size_t place,
                                     CUdeviceptr address, size_t n_bytes) {
    return place < rows->n &&
           (rows->row[place].address <= address || rows->row[place].address - address < n_bytes);
}

/* False: host memory is out. */
static inline bool cushim_rows_insert(struct cushim_rows *rows, struct cushim_row row) {
    if (rows->n == rows->most) {
        size_t most = rows->most ? 2 * rows->most : 64;
        struct cushim_row *grown = reallocarray(rows->row, most, sizeof *grown);
        if (!grown)
            return false;
        rows->row = grown;
        rows->most = most;
    }
    size_t place = cushim_rows_place(rows, row.address);
    memmove(rows->row + place + 1, rows->row + place, (rows->n - place) * sizeof row);
    rows->row[place] = row;
    rows->n++;
    return true;
}

static inline void cushim_rows_erase(struct cushim_rows *rows, size_t place) {
    rows->n--;
    memmove(rows->row + place, rows->row + place + 1, (rows->n - place) * sizeof *rows->row);
}

/* The row of exactly this range; NULL: none. */
static inline struct cushim_row *cushim_rows_at(struct cushim_rows *rows, CUdeviceptr address,
                                                size_t n_bytes) {
    size_t place = cushim_rows_place(rows, address);
    struct cushim_row *row = place < rows->n ? &rows->row[place] : NULL;
    return row && row->address == address && row->n_bytes == n_bytes ? row : NULL;
}
