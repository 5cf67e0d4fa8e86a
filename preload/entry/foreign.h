/*
 * Foreign allocations: memory that the driver served, and whose address or handle we saw.
 *
 * A map from address to size and kind, for the counters.  An address that is freed and is neither
 * here nor a block of ours was allocated around us.  A row is entered after the driver's call that
 * allocates, and erased before the call that frees (interposition.md D8).  If host memory is out,
 * an allocation works but is not counted.
 */
#pragma once

#include "preload/state/process.h"

struct cushim_foreign {
    uint64_t address; /* or the handle of what has none: mapped memory, and arrays */
    size_t n_bytes;
    enum cushim_kind kind;
    CUcontext context; /* NULL for pinned, managed and mapped memory, which belongs to all */
    struct cushim_mem_stats *stats;
    unsigned recording; /* that has it (observe/tracing.h); 0: none */
    bool is_hit;        /* no driver call was made: it is memory that the program gave back */
};

/* Count an allocation by the driver and remember it. */
void cushim_foreign_record(const struct cushim_foreign *foreign);

/* How much is at an address; 0: it is unknown. */
size_t cushim_foreign_bytes(uint64_t address);

/* Forget an address that is about to be freed; false if it is unknown. */
bool cushim_foreign_erase(uint64_t address, struct cushim_foreign *foreign);

/* The free failed: remember it again. */
void cushim_foreign_restore(const struct cushim_foreign *foreign);

/* The free succeeded: count it. */
void cushim_foreign_count_free(const struct cushim_foreign *foreign);

/* It went: forget it and count that, if it is known. */
void cushim_foreign_gone(uint64_t address);

/* A context was destroyed, with all that was allocated in it. */
void cushim_foreign_drop(CUcontext context);

/* All that has these counters was counted wrongly. */
void cushim_foreign_drop_counted(const struct cushim_mem_stats *stats);

/* A recording begins: tell what lives. */
void cushim_foreign_tell_start(void);

/* The driver was unloaded, and all memory that it served is gone. */
void cushim_foreign_drop_all(void);
