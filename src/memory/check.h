/*
 * The check finds blocks whose edges the program overwrote, and blocks that it wrote to after their
 * free.
 *
 * Each block of a heap with guards has a row from its allocation on: the call stack that asked for
 * it, and what its guards must hold.  A free compares the guards, poisons the block and puts it
 * into quarantine; when the block leaves that, the oldest first, its poison is compared.  A
 * difference is a finding, which is told at once and kept for the report.  A call that was refused
 * is one, too.  Nothing here changes an answer that the program gets.
 *
 * Other calls than the block's free may read a row; they check afterwards that the block is still
 * the same.
 *
 * Lock: `lock` guards rows, quarantine and findings; no driver call is made under it.
 */
#pragma once

#include <pthread.h>

#include "cuda/types.h"
#include "memory/layout/block.h"
#include "base/backtrace.h"

enum cushim_mem_harm {
    /* damage that a later call found */
    CUSHIM_MEM_HARM_BEFORE, /* bytes before the block were written */
    CUSHIM_MEM_HARM_AFTER,  /* bytes after its end were written */
    CUSHIM_MEM_HARM_FREED,  /* bytes of it were written after its free */
    /* calls that were refused */
    CUSHIM_MEM_HARM_AGAIN,    /* a free of a block that was freed before, or of no block */
    CUSHIM_MEM_HARM_INSIDE,   /* a free inside a block */
    CUSHIM_MEM_HARM_EXCEEDED, /* a copy or set that leaves its block */
    CUSHIM_MEM_HARM_TOUCHED,  /* a copy or set that touches freed memory */
    CUSHIM_MEM_HARM_GONE,     /* a free of memory that went with its context */
    /* calls that the driver answers as it does without us */
    CUSHIM_MEM_HARM_RESET, /* a reset of the device `offset`: n_bytes were live there */
    CUSHIM_MEM_HARM_STRAY, /* it made the context of the device `offset`, which nothing else uses */
    CUSHIM_MEM_HARM_FORKED /* in the process `offset`, whose parent had used CUDA */
};

static inline bool cushim_mem_harm_is_refusal(enum cushim_mem_harm harm) {
    return harm >= CUSHIM_MEM_HARM_AGAIN;
}

/* Is it about a call that has nothing to do with a block? */
static inline bool cushim_mem_harm_is_event(enum cushim_mem_harm harm) {
    return harm >= CUSHIM_MEM_HARM_RESET;
}

struct cushim_mem_finding {
    enum cushim_mem_harm harm;
    uint64_t
        address;    /* of the block, as the program has it; if none is known, the refused address */
    size_t n_bytes; /* 0: no block is known */
    int64_t offset; /* from the address: of the first damaged byte, or where the call began */
    unsigned char found; /* damage: what the byte is now */
    size_t span_bytes;   /* a refused copy or set: its bytes */
    const char *call; /* the call that was refused, or found the damage; static; NULL: `tell` sets
                       * it */
    struct cushim_backtrace obtained, freed; /* of the block, as far as known */
    struct cushim_backtrace at;              /* of the call; if that is NULL, `tell` takes it */
};

/* A row of a list that only grows, so readers need no lock. */
struct cushim_mem_told {
    struct cushim_mem_finding finding;
    _Atomic(struct cushim_mem_told *) next;
};

enum { CUSHIM_MEM_CHECK_LOOK_BLOCKS = 4096 };

/* All zero with an initialised lock is empty. */
struct cushim_mem_check {
    pthread_mutex_t lock;
    struct cushim_mem_check_row *rows; /* by address */
    struct cushim_mem_check_row *live; /* those of live blocks; the first is looked at next */
    size_t n_live;
    uint64_t n_freed;                        /* blocks whose free was checked */
    struct cushim_mem_check_row *quarantine; /* those of freed blocks, the oldest first */
    size_t quarantined_bytes;
    uint64_t n_rows;                        /* ever made: the serial of the next */
    uint64_t n_looked;                      /* n_rows at the last look */
    _Atomic(struct cushim_mem_told *) told; /* all findings, the first one first */
    struct cushim_mem_told *last_told;
    atomic_uint_fast64_t n_findings;
    atomic_uint_fast64_t n_unchecked; /* blocks without guards, or freed unseen */
    /* constant */
    size_t quarantine_bytes; /* what it may hold */
    /* Names the call and reports the finding; called without a lock. */
    void (*tell)(struct cushim_mem_finding *finding);
};

/**
 * A block was obtained from a heap with guards: write them, and poison what lies between.
 * @param is_poisoned  false: leave what lies between as it is
 * @return CUSHIM_OK (or it could not be done, which is counted) | CUSHIM_TIMEOUT (it may still be
 *         under way, so the block must not be used)
 * Threads  any
 * Stream   host wait
 */
enum cushim_status cushim_mem_check_obtained(struct cushim_mem_check *check,
                                             struct cushim_mem_heap *heap, uint64_t address,
                                             size_t n_bytes, bool is_poisoned);

/* Release a block like cushim_mem_free, which it calls if the block has no row.  It waits in both
 * modes of free. */
enum cushim_status cushim_mem_check_release(struct cushim_mem_check *check,
                                            const struct cushim_mem_lookup *lookup,
                                            CUresult *answer);

/* A block is freed in a way that cannot be checked, so its row goes. */
void cushim_mem_check_drop(struct cushim_mem_check *check, uint64_t address);

/*
 * Check the guards of live blocks of a heap; a damaged one is reported once.  It checks all of
 * them, or in turn CUSHIM_MEM_CHECK_LOOK_BLOCKS, and one more for each block that came since the
 * last look. Then the cost grows with the calls of the program, not with calls times blocks.
 */
void cushim_mem_check_look(struct cushim_mem_check *check, struct cushim_mem_heap *heap,
                           bool is_all);

/* Blocks leave the quarantine until it holds at most keep_bytes.  Returns what left. */
size_t cushim_mem_check_empty(struct cushim_mem_check *check, size_t keep_bytes);

/* The heap is going, and its rows go without a check. */
void cushim_mem_check_forget(struct cushim_mem_check *check, const struct cushim_mem_heap *heap);

/*
 * A call was refused.  Tell it, with the stacks of the block that starts at finding->address, or
 * that started there last, if one is known.
 */
void cushim_mem_check_refused(struct cushim_mem_check *check, struct cushim_mem_finding *finding);
