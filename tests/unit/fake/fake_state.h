/* The state of the fake driver, which its entry points and the functions for tests share. */
#pragma once

#include <pthread.h>
#include <uthash.h>

#include "tests/unit/fake/fake_cuda.h"

enum { FAKE_MAX_DEPTH = 16, FAKE_ORDER_BYTES = 1 << 16, FAKE_N_NAMES = 32 };

struct CUctx_st {
    unsigned number, flags, n_captures;
};

struct CUstream_st {
    unsigned number;
    uint64_t n_submitted, n_done;
};

struct CUevent_st {
    struct CUevent_st *next;
    CUcontext context;
    bool is_alive;
    uint64_t needs[FAKE_STREAMS]; /* n_submitted of each stream that the event covers */
};

struct fake_allocation {
    uint64_t address;
    size_t n_bytes, span_bytes;
    bool is_live;
    UT_hash_handle hh;
};

struct fake_state {
    pthread_mutex_t lock;
    struct CUctx_st contexts[FAKE_CONTEXTS];
    struct CUstream_st streams[FAKE_STREAMS];
    struct CUevent_st *events; /* destroyed events stay, so that their use is noticed */
    struct fake_allocation *allocations, *freed_last;
    uint64_t next_address;
    size_t limit_bytes, used_bytes, n_live, n_events;
    unsigned n_faults, n_invalidated, fail_at, n_all_calls;
    bool has_failed;
    CUresult fail_result, always_result;
    const char *always_name, *failed_call;
    void (*on_call)(const char *name);
    struct {
        const char *name;
        unsigned n;
    } counts[FAKE_N_NAMES];
    char order[FAKE_ORDER_BYTES];
    size_t order_bytes;
};

extern struct fake_state fake;

struct fake_thread {
    CUcontext stack[FAKE_MAX_DEPTH];
    unsigned depth;
    CUstreamCaptureMode mode; /* 0 is GLOBAL */
};

extern _Thread_local struct fake_thread fake_thread;
