/*
 * A trace: the allocations and frees of a program in order, generated or read from a file:
 *
 *   cushim-trace 1
 *   # a remark
 *   a 1048576      a block; they are numbered from 0
 *   f 0            block 0 is freed
 *   t              earlier steps are not timed; at most one
 *
 * Blocks that are never freed live until the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_step {
    size_t n_bytes; /* 0: block `id` is freed */
    uint32_t id;
};

struct trace {
    struct trace_step *steps;
    size_t n, capacity;
    size_t n_blocks;
    size_t timed_from;      /* a step */
    size_t peak_live_bytes; /* sum of the requested sizes */
};

/* Makes the workload of that name, such as random/1000x64M; false if there is none.  The caller
 * destroys it. */
bool trace_generate(struct trace *trace, const char *name, bool is_tiny);

/* Ends the process if the file is not a trace. */
void trace_read(struct trace *trace, const char *path);
void trace_write(const struct trace *trace, const char *path);
void trace_destroy(struct trace *trace);
