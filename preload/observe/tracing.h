/*
 * Recordings: with CUSHIM_TRACE the program's requests and frees are written to a file of the
 * process, in the order of each thread (src/trace).
 *
 * A process that is not recorded pays nothing, because a recorded one takes no fast path, like one
 * with the check on (cushim_process.is_watched).  An allocation is written after its block was
 * taken, and a free before its block is given back, so that no address is live twice in a
 * recording.
 *
 * A recording may begin and end while the process runs (observe/watch.h).  Then it also has what
 * lived before.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_backtrace;
struct cushim_mem_stats;

/* What to record.  The text of the folder's name must stay valid. */
struct cushim_tracing_wish {
    const char *folder;
    uint64_t max_bytes, run;
    bool has_stacks;
    bool is_relaxed;
    const struct cushim_mem_stats *stats; /* a row for each device, a struct for each kind */
    bool is_late;                         /* another process asked for it (state/control.h) */
};

/* Open the file of a recording; none is on.  0 or an errno. */
int cushim_tracing_begin(const struct cushim_tracing_wish *wished);

/* The process runs on without it. */
void cushim_tracing_stop(void);

/* In a forked child: the file belongs to the parent; a child that `is_fresh` opens its own, unless
 * the recording began late. */
void cushim_tracing_in_child(bool is_fresh);

/* The driver is known: the recording says if it is the software device's. */
void cushim_tracing_note_driver(void);

/* A normal end. */
void cushim_tracing_end(void);

/* The number of the recording; 0: none is on. */
extern atomic_uint cushim_tracing_now __attribute__((visibility("hidden")));
static inline unsigned cushim_tracing_number(void) {
    return atomic_load_explicit(&cushim_tracing_now, memory_order_acquire);
}

static inline bool cushim_tracing_is_on(void) {
    return cushim_tracing_number();
}

/* A heap served a request, or the driver if `heap` is NULL.  `stats` are the counters of the device
 * and kind. */
void cushim_tracing_alloc(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_hit);

/* A live block is about to be given back, now or after an event; and the call that did it ends. */
void cushim_tracing_free(const struct cushim_mem_stats *stats, const void *heap, uint64_t address);
void cushim_tracing_freed(const struct cushim_mem_stats *stats, const void *heap);

/* A block lives at this time although no request is recorded: its free was refused, or it lived
 * before.  `stack` is NULL if it is not known. */
void cushim_tracing_lives(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, const struct cushim_backtrace *stack, uint64_t now_ns);

/* A large copy was made. */
struct cushim_traced_copy {
    size_t n_bytes;
    uint64_t ns;
    bool is_to_host, is_by_driver;
    const char *left_for; /* why it was not staged; NULL: it was, or nobody tried */
};
void cushim_tracing_copy(const struct cushim_mem_stats *stats,
                         const struct cushim_traced_copy *copy);

/* There was no memory for a request.  That is written whether or not the driver then served it. */
void cushim_tracing_refused(const struct cushim_mem_stats *stats, const void *heap, size_t n_bytes);

/* The program named a moment. */
void cushim_tracing_mark(const char *name);

/* The memory of a device, when it is known (not 0); written once. */
void cushim_tracing_device(const struct cushim_mem_stats *stats, size_t n_bytes, const char *name);

/* A heap got memory from the driver, or will now give it back. */
void cushim_tracing_segment(const struct cushim_mem_stats *stats, const void *heap, uint64_t base,
                            size_t n_bytes, bool is_there);

/* A context was destroyed, and with it all blocks of a heap. */
void cushim_tracing_gone(const struct cushim_mem_stats *stats, const void *heap);
