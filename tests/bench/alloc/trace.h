/*
 * A trace: what a program obtained and gave back, in order.  Generated, or read from a file:
 *
 *   cushim-trace 1
 *   # a remark
 *   a 1048576      a block; they are numbered from 0
 *   f 0            block 0 is given back
 *   t              what comes before is not timed; at most one
 *
 * Blocks that are never given back live until the end.
 */
#ifndef CUSHIM_TESTS_BENCH_TRACE_H
#define CUSHIM_TESTS_BENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_step {
    size_t n_bytes; /* 0: block `id` is given back */
    uint32_t id;
};

struct trace {
    struct trace_step *steps;
    size_t n, capacity;
    size_t n_blocks;
    size_t timed_from;      /* a step */
    size_t peak_live_bytes; /* of the requested sizes */
};

/* The workload of that name, such as random/1000x64M, or false: no such trace.  The caller destroys
 * it. */
bool trace_generate(struct trace *trace, const char *name, bool is_tiny);

/* Ends the process where the file is not a trace. */
void trace_read(struct trace *trace, const char *path);
void trace_write(const struct trace *trace, const char *path);
void trace_destroy(struct trace *trace);

#endif
