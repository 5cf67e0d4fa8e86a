/*
 * Recordings: with CUSHIM_TRACE the program's requests and frees are written to a file of the
 * process, in the order of each thread (src/trace).
 *
 * A process that is not recorded pays nothing, because a recorded one takes no fast path, like one
 * with the check on (cushim_process.is_watched).  An allocation is written after its block was
 * taken, and a free before its block is given back, so that no address is live twice in a
 * recording.
 */
#ifndef CUSHIM_PRELOAD_TRACING_H
#define CUSHIM_PRELOAD_TRACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_stats;

/* What to record.  The text of the folder's name must stay valid. */
struct cushim_tracing_wish {
    const char *folder;
    uint64_t max_bytes, run;
    bool has_stacks;
    bool is_relaxed;
    const struct cushim_mem_stats *stats; /* a row for each device, a struct for each kind */
};

/* The options were read, and one asks for a recording: open its file. */
void cushim_tracing_begin(const struct cushim_tracing_wish *wished);

/* In a forked child: the file belongs to the parent; a child that `is_fresh` opens its own. */
void cushim_tracing_in_child(bool is_fresh);

/* The driver is known: the recording says if it is the software device's. */
void cushim_tracing_note_driver(void);

/* A normal end. */
void cushim_tracing_end(void);

bool cushim_tracing_is_on(void);

/* A heap served a request, or the driver if `heap` is NULL.  `stats` are the counters of the device
 * and kind. */
void cushim_tracing_alloc(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_hit);

/* A live block is about to be given back, now or after an event; the second says how that went. */
void cushim_tracing_free(const struct cushim_mem_stats *stats, const void *heap, uint64_t address);
void cushim_tracing_freed(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_done);

/* The driver refused a free. */
void cushim_tracing_restored(const struct cushim_mem_stats *stats, uint64_t address,
                             size_t n_bytes);

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

#endif
