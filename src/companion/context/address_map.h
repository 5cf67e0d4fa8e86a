/*
 * The address map: what this library handed out, device and host, by address.
 *
 * Rows do not overlap.  Blocks of pools are not rows: their module registers a function
 * (companion/context/pressure.h), which is called if no row covers the address.  The last 4096
 * freed addresses are kept, so that a double free can be told from an address that was never ours.
 *
 * Lock: one mutex, held over no driver call and no such function.
 */
#pragma once

#include "companion/context/context.h"

enum { CUSHIM_ADDRESS_N_FREED = 4096 };

struct cushim_address_map_row {
    uint64_t start;
    size_t bytes; /* as asked; at least 1 */
    enum cushim_memory_kind kind;
    unsigned flags;                        /* the kind's own */
    struct cushim_context_object *context; /* never NULL */
    struct cushim_object *owner; /* pool, arena, module, graph: then memory_free is STATE */
    bool is_shared;              /* the driver's allocation holds other blocks, too */
    struct cushim_address_map_node *node; /* of a row in the map; NULL in a row to record */
};

static inline struct cushim_address_map_row
cushim_address_map_row_of(enum cushim_memory_kind kind, uint64_t start, size_t bytes,
                          struct cushim_context_object *context, struct cushim_object *owner) {
    return (struct cushim_address_map_row){
        .start = start, .bytes = bytes, .kind = kind, .context = context, .owner = owner};
}

/**
 * Put a row in: after the memory was obtained.  Rows of dead contexts are replaced.  Memory that
 * the driver has just handed out replaces any row, because that memory cannot belong to another
 * allocation.
 * @param row  copied; context and owner are kept by the ledger
 * @return CUSHIM_OK | CUSHIM_NOMEM | CUSHIM_STATE (it overlaps a row); no error text
 */
enum cushim_status cushim_address_map_record(const struct cushim_address_map_row *row);

/**
 * Take a row out: before the memory is released.
 * @param start  as handed out
 * @param row    the references of the ledger pass to the caller: cushim_address_map_drop
 * @return CUSHIM_OK (and among the freed) | CUSHIM_DOUBLEFREE | CUSHIM_UNKNOWNPTR (inner addresses
 *         too); no error text
 */
enum cushim_status cushim_address_map_erase(uint64_t start, struct cushim_address_map_row *row);

/* The release failed: put back the row from erase, and forget that it was freed.  It cannot fail,
 * because the row kept its node. */
void cushim_address_map_restore(struct cushim_address_map_row *row);

/**
 * Find the row that covers an address.
 * @param row  a copy whose context and owner are kept: cushim_address_map_drop
 * @return true | false: no row and no module knows it
 */
bool cushim_address_map_find(uint64_t address, struct cushim_address_map_row *row);

/* Whether `start` is among the last freed, so that a free would be a double free. */
bool cushim_address_map_was_freed(uint64_t start);

/* Remember the free of a block that has no row (a pool's, an arena's). */
void cushim_address_map_note_freed(uint64_t start);

/* Release the references of a row got from erase or find. */
void cushim_address_map_drop(struct cushim_address_map_row *row);

/* The number of rows.  Those of a dead context stay until they are freed, which is CUSHIM_OK. */
size_t cushim_address_map_count(void);
