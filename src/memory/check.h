/*
 * The check: which blocks the program damaged around their edges, or wrote to after their free.
 *
 * Each block of a pool with guards has a row from its allocation on: where it was asked for, and
 * what its guards must hold.  A free looks at the guards, poisons the block and puts it into
 * quarantine; when it leaves, the oldest first, its poison is looked at.  What differs is a
 * finding, told at once and kept for the report.  Nothing here changes an answer that the program
 * gets.
 *
 * Rows are of blocks; whoever looks at one without being its free looks again afterwards whether
 * the block is still the same.
 *
 * Lock: `lock` guards rows, quarantine and findings; no driver call is made under it.
 */
#ifndef CUSHIM_MEMORY_CHECK_H
#define CUSHIM_MEMORY_CHECK_H

#include <pthread.h>

#include "memory/pool.h"
#include "memory/stack.h"

enum cushim_mem_harm {
    CUSHIM_MEM_HARM_BEFORE, /* bytes before the block were written */
    CUSHIM_MEM_HARM_AFTER,  /* bytes behind its end were */
    CUSHIM_MEM_HARM_FREED   /* bytes of it were, after its free */
};

struct cushim_mem_finding {
    enum cushim_mem_harm harm;
    uint64_t address; /* of the block, as the program has it */
    size_t n_bytes;
    int64_t offset; /* of the first damaged byte, from the address */
    unsigned char found;
    struct cushim_mem_stack obtained, freed; /* freed: of HARM_FREED alone */
};

struct cushim_mem_check_row;

enum { CUSHIM_MEM_CHECK_KEPT = 32 };

/* All zero, and the lock made, is empty. */
struct cushim_mem_check {
    pthread_mutex_t lock;
    struct cushim_mem_check_row *rows;              /* by address */
    struct cushim_mem_check_row *oldest, *youngest; /* in quarantine */
    size_t quarantined_bytes;
    uint64_t n_rows; /* ever made: the serial of the next */
    struct cushim_mem_finding kept[CUSHIM_MEM_CHECK_KEPT];
    unsigned n_kept;
    atomic_uint_fast64_t n_findings;
    atomic_uint_fast64_t n_unchecked; /* blocks without guards, or freed unseen */
    /* constant */
    size_t quarantine_bytes;                                /* what it may hold */
    void (*tell)(const struct cushim_mem_finding *finding); /* under no lock */
};

/**
 * A block was obtained from a pool with guards: write them, and poison what lies between.
 * @param is_poisoned  false: leave what lies between as it is
 * @return CUSHIM_OK (or it could not be done, which is counted) | CUSHIM_TIMEOUT (the device is
 * busy: release the block on the guard's stream, nobody may have it)
 * Threads  any      Stream   host wait
 */
enum cushim_status cushim_mem_check_obtained(struct cushim_mem_check *check,
                                             struct cushim_mem_pool *pool, uint64_t address,
                                             size_t n_bytes, bool is_poisoned);

/* Release a block, as cushim_mem_pool_release, which it is where the block has no row; waits in
 * both modes of free. */
enum cushim_status cushim_mem_check_release(struct cushim_mem_check *check,
                                            const struct cushim_mem_found *found, CUresult *answer);

/* A block is freed in a way that cannot be looked at: its row goes. */
void cushim_mem_check_drop(struct cushim_mem_check *check, uint64_t address);

/* Look at the guards of all live blocks of a pool.  Each is told of once. */
void cushim_mem_check_look(struct cushim_mem_check *check, struct cushim_mem_pool *pool);

/* Blocks leave the quarantine until it holds at most keep_bytes.  Returns what left. */
size_t cushim_mem_check_empty(struct cushim_mem_check *check, size_t keep_bytes);

/* The pool is going: its rows do, unseen. */
void cushim_mem_check_forget(struct cushim_mem_check *check, const struct cushim_mem_pool *pool);

/* The stacks of the block that starts at an address, or did last; false where none is known. */
bool cushim_mem_check_find(struct cushim_mem_check *check, uint64_t address,
                           struct cushim_mem_stack *obtained, struct cushim_mem_stack *freed);

#endif
