#include "preload/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "preload/capture.h"

/* Of the options; the order of their words. */
enum { IS_OFF, OF_FREES, IS_FULL };
enum { ZERO_ON = 2 };

static void say(const struct cushim_mem_finding *finding);

struct cushim_mem_check cushim_check = {.lock = PTHREAD_MUTEX_INITIALIZER, .tell = say};

void cushim_check_configure(void) {
    cushim_engine.policy.has_guards = cushim_engine.options.check != IS_OFF;
    cushim_check.quarantine_bytes = cushim_engine.options.check_quarantine;
}

/* ---- words ---- */

void cushim_check_text(const struct cushim_mem_finding *finding,
                       char text[CUSHIM_CHECK_TEXT_BYTES]) {
    static const char *const whats[] = {"written before its start", "written behind its end",
                                        "written after its free"};
    snprintf(text, CUSHIM_CHECK_TEXT_BYTES,
             "the block of %zu bytes at 0x%" PRIx64 " was %s: 0x%02x at offset %" PRId64,
             finding->n_bytes, finding->address, whats[finding->harm], finding->found,
             finding->offset);
}

static void say_stack(const char *what, const struct cushim_mem_stack *stack) {
    int first = cushim_mem_stack_first(stack);
    for (int i = first; i < stack->n_frames; i++) {
        char text[CUSHIM_MEM_FRAME_BYTES];
        cushim_mem_stack_text(stack, i, text);
        log_error("check", "  %s %d: %s", what, i - first, text);
    }
}

static void say(const struct cushim_mem_finding *finding) {
    char text[CUSHIM_CHECK_TEXT_BYTES];
    cushim_check_text(finding, text);
    log_error("check", "%s", text);
    say_stack("allocated at", &finding->obtained);
    say_stack("freed at", &finding->freed);
}

void cushim_check_explain(uint64_t address) {
    struct cushim_mem_stack obtained, freed;
    if (!cushim_check_is_on() || !cushim_mem_check_find(&cushim_check, address, &obtained, &freed))
        return;
    log_error("check", "0x%" PRIx64 " was used wrongly: refused as natively", address);
    say_stack("allocated at", &obtained);
    say_stack("freed at", &freed);
}

/* ---- wiring ---- */

/* May we write and read the program's memory now? */
static bool may_look(void) {
    return !cushim_capture_is_open() && !cushim_thread.host_function_depth;
}

static void count_unchecked(void) {
    cushim_mem_stats_add(&cushim_check.n_unchecked, 1);
}

/* Its poison is still being written: the block is free behind that. */
static void set_aside(struct cushim_mem_pool *pool, uint64_t address) {
    struct cushim_mem_found found;
    CUresult answer;
    if (cushim_mem_ledger_find(&cushim_engine.ledger, address, &found))
        cushim_mem_pool_release_on(pool, &found, atomic_load(&pool->guard.stream), &answer);
}

bool cushim_check_obtained(struct cushim_mem_pool *pool, const struct cushim_mem_block *block,
                           size_t n_bytes) {
    if (!cushim_check_is_on() || !pool->guard.n_bytes)
        return true;
    if (!may_look()) {
        count_unchecked();
        return true;
    }
    /* what CUSHIM_ZERO clears is not all of it: the rest must stay as it came */
    bool is_poisoned = cushim_engine.options.zero != ZERO_ON;
    if (cushim_mem_check_obtained(&cushim_check, pool, block->address, n_bytes, is_poisoned) !=
        CUSHIM_TIMEOUT)
        return true;
    set_aside(pool, block->address);
    return false;
}

bool cushim_check_release(const struct cushim_mem_found *found, enum cushim_status *status,
                          CUresult *answer) {
    if (!cushim_check_is_on() || !found->segment->guard_bytes)
        return false;
    if (!may_look()) {
        cushim_check_drop(found);
        return false;
    }
    *status = cushim_mem_check_release(&cushim_check, found, answer);
    return true;
}

void cushim_check_drop(const struct cushim_mem_found *found) {
    if (cushim_check_is_on() && found->segment->guard_bytes)
        cushim_mem_check_drop(&cushim_check, found->base);
}

void cushim_check_synchronised(struct cushim_mem_pool *pool) {
    if (cushim_engine.options.check == IS_FULL && pool && may_look())
        cushim_mem_check_look(&cushim_check, pool);
}

void cushim_check_leave(struct cushim_mem_pool *pool) {
    if (!cushim_check_is_on() || !pool || !may_look())
        return;
    cushim_mem_check_empty(&cushim_check, 0);
    cushim_mem_check_look(&cushim_check, pool);
}

void cushim_check_forget(const struct cushim_mem_pool *pool) {
    if (cushim_check_is_on())
        cushim_mem_check_forget(&cushim_check, pool);
}

void cushim_check_give_back(void) {
    if (cushim_check_is_on() && may_look())
        cushim_mem_check_empty(&cushim_check, 0);
}
