/*
 * The checking mode as the program meets it: CUSHIM_CHECK, and what is said of its findings.
 *
 * Device memory alone.  While a capture is open nothing is looked at, which is counted.
 */
#ifndef CUSHIM_PRELOAD_CHECK_MODE_H
#define CUSHIM_PRELOAD_CHECK_MODE_H

#include "memory/special/check.h"
#include "preload/state/process.h"

struct cushim_mem_block;

extern struct cushim_mem_check cushim_check;

/* Read what the options say into the policy; once, before the engine is on. */
void cushim_check_configure(void);

static inline bool cushim_check_is_on(void) {
    return cushim_process.policy.has_guards;
}

/* A block was obtained from a pool.  False: it was released again, and the driver is to serve. */
bool cushim_check_obtained(struct cushim_mem_heap *pool, const struct cushim_mem_block *block,
                           size_t n_bytes);

/* Release a live block; false: it is not the check's, nothing was done. */
bool cushim_check_release(const struct cushim_mem_lookup *found, enum cushim_status *status,
                          CUresult *answer);

/* A live block is about to be freed in a way that cannot be looked at. */
void cushim_check_drop(const struct cushim_mem_lookup *found);

/*
 * A free, or a copy or set of so many bytes, at an address was refused: say what was wrong with it,
 * which call it was, and whence the block is.  `found` is NULL where no segment is there any more.
 */
void cushim_check_refused(enum cushim_mem_harm harm, const struct cushim_mem_lookup *found,
                          uint64_t address, size_t span_bytes);

/* The program synchronised a context of this pool (NULL: it has none). */
void cushim_check_synchronised(struct cushim_mem_heap *pool);

/* A context goes, with this pool: a last look; then forget it. */
void cushim_check_leave(struct cushim_mem_heap *pool);
void cushim_check_forget(const struct cushim_mem_heap *pool);

/* Memory is short: nothing stays in quarantine. */
void cushim_check_give_back(void);

/* The kind of fault: "overrun", "use after free", "double free", "interior free". */
const char *cushim_check_fault(enum cushim_mem_harm harm);

/* What was done to the block, in a few words. */
const char *cushim_check_harm(enum cushim_mem_harm harm);

/* What the stack of the call is of: one that was refused, or that found the damage. */
const char *cushim_check_place(enum cushim_mem_harm harm);

/* What is wrong, in words, for the log and the report. */
enum { CUSHIM_CHECK_TEXT_BYTES = 256 };
void cushim_check_text(const struct cushim_mem_finding *finding,
                       char text[CUSHIM_CHECK_TEXT_BYTES]);

#endif
