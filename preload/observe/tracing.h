/*
 * Recordings: with CUSHIM_TRACE, what the program asks for and gives back is written to a file of
 * its process, in the order of each thread (src/trace).
 *
 * Nothing is asked at a call of a process that is not recorded: a recorded process takes no
 * fast path, as one with the check on (cushim_process.is_watched).  An allocation is told after
 * its block was taken, a free before the block is given, so that an address is never told as live
 * twice.
 */
#ifndef CUSHIM_PRELOAD_TRACING_H
#define CUSHIM_PRELOAD_TRACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_stats;

/* What a recording is of.  The folder stays where it is. */
struct cushim_tracing_wish {
    const char *folder;
    uint64_t max_bytes, run;
    enum cushim_tracing_stacks {
        CUSHIM_TRACING_NO_STACKS,
        CUSHIM_TRACING_NATIVE, /* of code */
        CUSHIM_TRACING_PYTHON  /* of Python where a thread runs any */
    } stacks;
    bool is_relaxed;
    const struct cushim_mem_stats *stats; /* a row a device, a counter struct a kind */
};

/* The options were read, and a recording is wished: open its file. */
void cushim_tracing_begin(const struct cushim_tracing_wish *wished);

/* In a forked child: the file is the parent's; one that `is_fresh` has its own. */
void cushim_tracing_in_child(bool is_fresh);

/* The driver is known: the recording says if it is the software device's. */
void cushim_tracing_note_driver(void);

/* A normal end. */
void cushim_tracing_end(void);

bool cushim_tracing_is_on(void);

/* A heap, or where it is NULL the driver, served a request; `stats` are the counters of the
 * place. */
void cushim_tracing_alloc(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_hit);

/* A live block is about to be given back, now or by an event; then how that went. */
void cushim_tracing_free(const struct cushim_mem_stats *stats, const void *heap, uint64_t address);
void cushim_tracing_freed(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_done);

/* A free of the driver's was refused. */
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

/* There was no memory for a request; it is told whether or not the driver then served it. */
void cushim_tracing_refused(const struct cushim_mem_stats *stats, const void *heap, size_t n_bytes);

/* The program named a moment. */
void cushim_tracing_mark(const char *name);

/* What a device has, once it is known (not 0); told once. */
void cushim_tracing_device(const struct cushim_mem_stats *stats, size_t n_bytes, const char *name);

/* A heap got memory from the driver, or will now give it back. */
void cushim_tracing_segment(const struct cushim_mem_stats *stats, const void *heap, uint64_t base,
                            size_t n_bytes, bool is_there);

/* A context took all blocks of a heap along. */
void cushim_tracing_gone(const struct cushim_mem_stats *stats, const void *heap);

#endif
