/*
 * Foreign allocations: memory that the driver served natively and whose address we saw.
 *
 * A cold map from address to size and kind, for the counters: a free of an address that is neither
 * here nor in the ledger was allocated around us.  Rows are entered after the driver's call and
 * erased before it (HOOKS.md D8).  Where host memory is out an allocation is not tracked, and works
 * all the same.
 */
#ifndef CUSHIM_PRELOAD_FOREIGN_H
#define CUSHIM_PRELOAD_FOREIGN_H

#include "preload/state/process.h"

struct cushim_foreign {
    uint64_t address;
    size_t n_bytes;
    enum cushim_kind kind;
    CUcontext context; /* NULL for pinned and managed memory, which belongs to all */
    struct cushim_mem_stats *stats;
};

/* Count a native allocation and remember it. */
void cushim_foreign_record(const struct cushim_foreign *native);

/* Forget an address that is about to be freed; false where it is unknown. */
bool cushim_foreign_erase(uint64_t address, struct cushim_foreign *native);

/* Its free failed: it is there again. */
void cushim_foreign_restore(const struct cushim_foreign *native);

/* Its free succeeded. */
void cushim_foreign_count_free(const struct cushim_foreign *native);

/* The context is gone with all that was allocated in it. */
void cushim_foreign_drop(CUcontext context);

/* The driver is. */
void cushim_foreign_drop_all(void);

#endif
