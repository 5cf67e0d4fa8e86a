/* A stream, a block, and captures of sets, for the suites about graphs. */
#pragma once

#include <stdint.h>

#include "cushim/context.h"
#include "cushim/graph.h"
#include "cushim/memory.h"
#include "cushim/memory_copy.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

enum { N_WORDS = 64, N_BYTES = 4 * N_WORDS };

static inline struct cushim_stream *make_stream(void) {
    struct cushim_stream *stream;
    ck_assert_int_eq(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream),
                     CUSHIM_OK);
    return stream;
}

static inline cushim_devptr make_block(void) {
    cushim_devptr block;
    ck_assert_int_eq(cushim_memory_alloc(NULL, N_BYTES, &block), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_set32(block, 0, N_WORDS), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    return block;
}

static inline uint32_t first_word(cushim_devptr block) {
    uint32_t word;
    ck_assert_int_eq(cushim_memory_d2h(&word, block, sizeof word), CUSHIM_OK);
    return word;
}

static inline void set(struct cushim_stream *stream, cushim_devptr block, uint32_t value) {
    ck_assert_int_eq(cushim_memory_set32_async(block, value, N_WORDS, stream), CUSHIM_OK);
}

static inline struct cushim_graph *capture_set(struct cushim_stream *stream, cushim_devptr block,
                                               uint32_t value) {
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    set(stream, block, value);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    return graph;
}

static inline int status_of(struct cushim_stream *stream) {
    int status;
    ck_assert_int_eq(cushim_graph_status(stream, &status), CUSHIM_OK);
    return status;
}

static inline int n_capturing(void) {
    int n;
    ck_assert_int_eq(cushim_graph_capturing(NULL, &n), CUSHIM_OK);
    return n;
}

static inline void run(struct cushim_graphexec *exec, struct cushim_stream *stream) {
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
}
