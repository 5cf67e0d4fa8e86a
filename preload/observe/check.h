/*
 * The checking mode: the option CUSHIM_CHECK, and the report of its findings.
 *
 * It checks only device memory.  While a capture is open it checks nothing, and counts that.
 */
#pragma once

#include "memory/check.h"
#include "preload/state/process.h"

struct cushim_mem_block;

extern struct cushim_mem_check cushim_check;

/* Put the options into the policy; called once, before cushim is on. */
void cushim_check_configure(void);

static inline bool cushim_check_is_on(void) {
    return cushim_process.policy.has_guards;
}

/* A block was obtained from a heap: write its guards.  If the device does not get to that in time,
 * the block becomes another one, which is not checked.  With a status other than CUSHIM_OK there is
 * no block. */
enum cushim_status cushim_check_obtained(struct cushim_mem_heap *heap,
                                         struct cushim_mem_block *block, size_t n_bytes);

/* Release a live block.  False: the check does not know it, and nothing was done. */
bool cushim_check_release(const struct cushim_mem_lookup *lookup, enum cushim_status *status,
                          CUresult *answer);

/* A live block is about to be freed in a way that cannot be checked. */
void cushim_check_drop(const struct cushim_mem_lookup *lookup);

/*
 * A free, or a copy or set of span_bytes, at an address was refused.  Report what was wrong, which
 * call it was, and where the block was allocated.  `lookup` NULL: its segment is gone.
 */
void cushim_check_refused(enum cushim_mem_harm harm, const struct cushim_mem_lookup *lookup,
                          uint64_t address, size_t span_bytes);

/* A reset of a device: what was live there before it (0: nobody reads a finding), and the finding
 * of what went. */
size_t cushim_check_before_reset(int device);
void cushim_check_after_reset(int device, size_t before_bytes);

/* The program asked for the primary context of a device. */
void cushim_check_context_made(struct cushim_cuda *cuda, int device);

/* The parent of this process had used CUDA.  Say once that the process cannot. */
void cushim_check_called_after_fork(enum cushim_cuda_symbol symbol);

/* The process ends: find the contexts that nothing used, and the children that called CUDA. */
void cushim_check_end(void);

/* The program synchronised the context of this heap (NULL: it has none). */
void cushim_check_synchronised(struct cushim_mem_heap *heap);

/* A context is destroyed, with this heap: check its blocks once more, then forget it. */
void cushim_check_leave(struct cushim_mem_heap *heap);
void cushim_check_forget(const struct cushim_mem_heap *heap);

/* Memory is short: empty the quarantine. */
void cushim_check_give_back(void);

/* The kind of fault, as docs/schema/report-1.json lists them. */
const char *cushim_check_fault(enum cushim_mem_harm harm);

/* What happened to the block, in a few words. */
const char *cushim_check_harm(enum cushim_mem_harm harm);
