/*
 * The checking mode as the program meets it: CUSHIM_CHECK, and what is said of its findings.
 *
 * Device memory alone.  While a capture is open nothing is looked at, which is counted.
 */
#ifndef CUSHIM_PRELOAD_CHECK_H
#define CUSHIM_PRELOAD_CHECK_H

#include "memory/check.h"
#include "preload/engine.h"

extern struct cushim_mem_check cushim_check;

/* Read what the options say into the policy; once, before the engine is on. */
void cushim_check_configure(void);

static inline bool cushim_check_is_on(void) {
    return cushim_engine.policy.has_guards;
}

/* A block was obtained from a pool.  False: it was released again, and the driver is to serve. */
bool cushim_check_obtained(struct cushim_mem_pool *pool, const struct cushim_mem_block *block,
                           size_t n_bytes);

/* Release a live block; false: it is not the check's, nothing was done. */
bool cushim_check_release(const struct cushim_mem_found *found, enum cushim_status *status,
                          CUresult *answer);

/* A live block is about to be freed in a way that cannot be looked at. */
void cushim_check_drop(const struct cushim_mem_found *found);

/* A free or a copy was refused: say where the block at this address was allocated, and freed. */
void cushim_check_explain(uint64_t address);

/* The program synchronised a context of this pool (NULL: it has none). */
void cushim_check_synchronised(struct cushim_mem_pool *pool);

/* A context goes, with this pool: a last look; then forget it. */
void cushim_check_leave(struct cushim_mem_pool *pool);
void cushim_check_forget(const struct cushim_mem_pool *pool);

/* Memory is short: nothing stays in quarantine. */
void cushim_check_give_back(void);

/* What is wrong, in words, for the log and the report. */
enum { CUSHIM_CHECK_TEXT_BYTES = 256 };
void cushim_check_text(const struct cushim_mem_finding *finding,
                       char text[CUSHIM_CHECK_TEXT_BYTES]);

#endif
