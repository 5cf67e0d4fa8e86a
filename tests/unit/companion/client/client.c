/* Clients: one per device, events that are consumed and reused, and copies. */
#include "cushim/client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "cushim/context.h"
#include "cushim/device.h"
#include "cushim/event.h"
#include "cushim/host.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

enum { N_BYTES = 256, N_THREADS = 4 };

static struct cushim_client *make_client(void) {
    struct cushim_client *client;
    ck_assert_int_eq(cushim_client_create(NULL, NULL, &client), CUSHIM_OK);
    return client;
}

static cushim_devptr block_of(struct cushim_client *client) {
    cushim_devptr block;
    ck_assert_int_eq(cushim_client_alloc(client, N_BYTES, &block), CUSHIM_OK);
    return block;
}

static struct cushim_stream *compute_of(struct cushim_client *client) {
    struct cushim_stream *compute;
    ck_assert_int_eq(cushim_client_compute(client, &compute), CUSHIM_OK);
    return compute;
}

static struct cushim_event *record(struct cushim_client *client) {
    struct cushim_event *event;
    ck_assert_int_eq(cushim_client_record(client, &event), CUSHIM_OK);
    return event;
}

/* ---- the client of a device ---- */

static void *get(void *argument) {
    ck_assert_int_eq(cushim_client_get(0, argument), CUSHIM_OK);
    return NULL;
}

TEST(all_threads_get_one_client_and_the_last_destroy_ends_it) {
    pthread_t threads[N_THREADS];
    struct cushim_client *clients[N_THREADS], *other, *next;
    struct cushim_stream *compute;
    for (unsigned i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get, &clients[i]), 0);
    for (unsigned i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(cushim_client_get(1, &other), CUSHIM_OK);
    ck_assert_ptr_ne(other, clients[0]);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_ptr_eq(clients[i], clients[0]);
        ck_assert_int_eq(cushim_client_compute(clients[0], &compute), CUSHIM_OK);
        ck_assert_int_eq(cushim_client_destroy(clients[0]), CUSHIM_OK);
    }
    ck_assert_int_eq(cushim_client_destroy(clients[0]), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_client_compute(clients[0], &compute), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_client_get(0, &next), CUSHIM_OK);
    ck_assert_ptr_ne(next, clients[0]);
    ck_assert_int_eq(cushim_client_destroy(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_get(9, &next), CUSHIM_BADDEVICE);
    ck_assert_ptr_null(next);
}

TEST(the_next_get_retries_after_a_failed_one) {
    struct cushim_client *client;
    for (unsigned n = 1;; n++) {
        ck_assert_uint_lt(n, 100);
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = cushim_client_get(0, &client);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_int_eq(client == NULL, status != CUSHIM_OK);
        if (!has_failed)
            break;
        ck_assert_int_eq(cushim_client_get(0, &client), CUSHIM_OK);
        ck_assert_int_eq(cushim_client_destroy(client), CUSHIM_OK);
    }
}

TEST(after_a_reset_a_device_gets_a_new_client) {
    struct cushim_client *first, *second;
    cushim_devptr block;
    ck_assert_int_eq(cushim_client_get(0, &first), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_alloc(first, N_BYTES, &block), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_client_get(0, &second), CUSHIM_OK);
    ck_assert_ptr_ne(first, second);
    block_of(second);
    ck_assert_int_eq(cushim_client_destroy(first), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_client_destroy(second), CUSHIM_OK);
}

TEST(the_caller_may_provide_streams_and_pool) {
    struct cushim_client_options options;
    struct cushim_client *client;
    struct cushim_pool *pool, *shown;
    struct cushim_stream *mine;
    struct CUstream_st *handle, *compute;
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_create(NULL, &pool), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, 0, 0, &mine), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_handle(mine, &handle), CUSHIM_OK);
    cushim_client_options_default(&options);
    options.pool = pool;
    options.compute = handle;
    ck_assert_int_eq(cushim_client_create(NULL, &options, &client), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_handle(compute_of(client), &compute), CUSHIM_OK);
    ck_assert_ptr_eq(compute, handle);
    ck_assert_int_eq(cushim_client_pool(client, &shown), CUSHIM_OK);
    ck_assert_ptr_eq(shown, pool);
    block_of(client);
    ck_assert_int_eq(cushim_client_destroy(client), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_synchronize(mine), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(pool), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_create(NULL, &options, &client), CUSHIM_BADHANDLE);
    ck_assert_ptr_null(client);
    options.struct_size = 1;
    ck_assert_int_eq(cushim_client_create(NULL, &options, &client), CUSHIM_ABI);
}

TEST(borrowed_objects_end_only_with_the_client) {
    struct cushim_client *client = make_client();
    struct cushim_stream *compute = compute_of(client), *copy;
    struct cushim_context *context;
    struct cushim_pool *pool;
    ck_assert_int_eq(cushim_client_copy(client, &copy), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_pool(client, &pool), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_context(client, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_context(client, &context), CUSHIM_OK);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(cushim_stream_destroy(compute), CUSHIM_STATE);
        ck_assert_int_eq(cushim_stream_destroy(copy), CUSHIM_STATE);
        ck_assert_int_eq(cushim_pool_destroy(pool), CUSHIM_STATE);
        ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_STATE);
    }
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "borrowed"));
    ck_assert_int_eq(cushim_client_destroy(client), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_destroy(compute), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_stream_destroy(copy), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_pool_destroy(pool), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
}

/* ---- events ---- */

TEST(an_event_is_consumed_on_every_path) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client);
    unsigned char got[N_BYTES];
    struct cushim_event *done, *event;
    for (unsigned n = 1;; n++) {
        ck_assert_uint_lt(n, 100);
        event = record(client);
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = cushim_client_d2h_pipelined(client, got, block, N_BYTES, event);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_BADHANDLE);
        if (!has_failed) {
            ck_assert_int_eq(status, CUSHIM_OK);
            break;
        }
    }
    struct {
        struct cushim_client *client;
        void *dst;
        cushim_devptr src;
        size_t bytes;
        enum cushim_status status;
    } calls[] = {{client, got, block, 0, CUSHIM_OK},
                 {client, got, block, N_BYTES, CUSHIM_OK},
                 {client, NULL, block, N_BYTES, CUSHIM_INVALID},
                 {client, got, block, SIZE_MAX, CUSHIM_INVALID},
                 {client, got, block, N_BYTES + 512, CUSHIM_INVALID},
                 {NULL, got, block, N_BYTES, CUSHIM_INVALID},
                 {(struct cushim_client *)0x1234, got, block, N_BYTES, CUSHIM_BADHANDLE}};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        event = record(client);
        ck_assert_int_eq(cushim_client_d2h_pipelined(calls[i].client, calls[i].dst, calls[i].src,
                                                     calls[i].bytes, event),
                         calls[i].status);
        ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_BADHANDLE);
        event = record(client);
        ck_assert_int_eq(cushim_client_d2h_start(calls[i].client, calls[i].dst, calls[i].src,
                                                 calls[i].bytes, event, &done),
                         calls[i].status);
        ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_BADHANDLE);
        ck_assert_int_eq(done == NULL, calls[i].status != CUSHIM_OK);
        ck_assert_int_eq(cushim_event_synchronize(done), done ? CUSHIM_OK : CUSHIM_INVALID);
        ck_assert_int_eq(cushim_event_destroy(done), CUSHIM_OK);
    }
    event = record(client);
    ck_assert_int_eq(cushim_client_d2h_start(client, got, block, N_BYTES, event, NULL),
                     CUSHIM_INVALID);
    ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_client_d2h_pipelined(client, got, block, N_BYTES, NULL),
                     CUSHIM_INVALID);
}

TEST(events_are_created_once_and_reused) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client);
    unsigned char got[N_BYTES];
    ck_assert_int_eq(cushim_client_d2h_pipelined(client, got, block, N_BYTES, record(client)),
                     CUSHIM_OK);
    SIM(sim_calls_reset)();
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(cushim_client_d2h_pipelined(client, got, block, N_BYTES, record(client)),
                         CUSHIM_OK);
        ck_assert_int_eq(cushim_event_destroy(record(client)), CUSHIM_OK);
    }
    ck_assert_uint_eq(SIM(sim_calls)("cuEventCreate"), 0);
    ck_assert_uint_eq(SIM(sim_calls)("cuEventDestroy_v2"), 0);
}

TEST(an_event_outlives_its_client) {
    struct cushim_client *client = make_client();
    struct cushim_event *event = record(client);
    ck_assert_int_eq(cushim_client_destroy(client), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_synchronize(event), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_OK);
}

/* ---- copies ---- */

static void CUDA_CB nap(void *argument) {
    usleep(*(unsigned *)argument);
}

/* Keep the stream busy, so that a later copy has not begun when a call returns without waiting. */
static void keep_busy(struct cushim_stream *stream) {
    static unsigned nap_us = 3000;
    struct CUstream_st *handle;
    ck_assert_int_eq(cushim_stream_handle(stream, &handle), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuLaunchHostFunc)(handle, nap, &nap_us), CUDA_SUCCESS);
}

TEST(a_pipelined_copy_waits_for_its_event) {
    struct cushim_client *client = make_client();
    struct cushim_stream *compute = compute_of(client);
    cushim_devptr block = block_of(client);
    unsigned char got[N_BYTES];
    for (unsigned i = 1; i < 10; i++) {
        keep_busy(compute);
        ck_assert_int_eq(cushim_memory_set8_async(block, (unsigned char)i, N_BYTES, compute),
                         CUSHIM_OK);
        ck_assert_int_eq(cushim_client_d2h_pipelined(client, got, block, N_BYTES, record(client)),
                         CUSHIM_OK);
        ck_assert_uint_eq(got[N_BYTES - 1], i);
    }
}

/* A caller that gets an error reuses the buffer at once. */
TEST(a_started_copy_does_not_outlive_a_failed_call) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client);
    unsigned char *dst;
    void *memory;
    int n_started = 0;
    ck_assert_int_eq(cushim_host_alloc(NULL, N_BYTES, 0, &memory), CUSHIM_OK);
    dst = memory;
    for (unsigned n = 1;; n++) {
        struct cushim_event *done, *event;
        memset(dst, 0, N_BYTES);
        keep_busy(compute_of(client));
        ck_assert_int_eq(
            cushim_memory_set8_async(block, (unsigned char)n, N_BYTES, compute_of(client)),
            CUSHIM_OK);
        event = record(client);
        SIM(sim_calls_reset)();
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status =
            cushim_client_d2h_start(client, dst, block, N_BYTES, event, &done);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        if (status != CUSHIM_OK && SIM(sim_calls)("cuMemcpyDtoHAsync_v2")) {
            bool is_copied = dst[N_BYTES - 1] == (unsigned char)n;
            n_started += is_copied;
            memset(dst, 0xee, N_BYTES);
            ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
            ck_assert_uint_eq(dst[N_BYTES - 1], 0xee);
        }
        if (status == CUSHIM_OK)
            ck_assert_int_eq(cushim_event_destroy(done), CUSHIM_OK);
        ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
        if (!has_failed)
            break;
    }
    ck_assert_int_ge(n_started, 1);
}

TEST(pinned_sources_are_waited_for_and_pageable_ones_are_not) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client);
    unsigned char pageable[N_BYTES] = {1}, got[N_BYTES];
    void *pinned, *foreign;
    ck_assert_int_eq(cushim_host_alloc(NULL, N_BYTES, 0, &pinned), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuMemHostAlloc)(&foreign, N_BYTES, 0), CUDA_SUCCESS);
    void *sources[] = {pinned, foreign};
    SIM(sim_calls_reset)();
    ck_assert_int_eq(cushim_client_h2d(client, block, pageable, N_BYTES), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_calls)("cuEventSynchronize"), 0);
    for (unsigned i = 0; i < 2; i++) {
        memset(sources[i], 2, N_BYTES);
        SIM(sim_calls_reset)();
        ck_assert_int_eq(cushim_client_h2d(client, block, sources[i], N_BYTES), CUSHIM_OK);
        ck_assert_uint_eq(SIM(sim_calls)("cuEventSynchronize"), 1);
        memset(sources[i], 3, N_BYTES);
        ck_assert_int_eq(cushim_client_d2h(client, got, block, N_BYTES), CUSHIM_OK);
        ck_assert_uint_eq(got[N_BYTES - 1], 2);
    }
}

TEST(after_any_failed_call_the_bytes_are_right_or_the_copy_reports_it) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client), other = block_of(client);
    unsigned char *pinned, got[N_BYTES];
    void *memory;
    ck_assert_int_eq(cushim_host_alloc(NULL, N_BYTES, 0, &memory), CUSHIM_OK);
    pinned = memory;
    for (unsigned n = 1;; n++) {
        ck_assert_uint_lt(n, 200);
        memset(pinned, (int)n, N_BYTES);
        memset(got, 0, N_BYTES);
        keep_busy(compute_of(client));
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = cushim_client_h2d(client, block, pinned, N_BYTES);
        memset(pinned, 0xee, N_BYTES);
        if (status == CUSHIM_OK)
            status = cushim_client_d2d(client, other, block, N_BYTES);
        if (status == CUSHIM_OK)
            status = cushim_client_d2h(client, got, other, N_BYTES);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        if (status == CUSHIM_OK)
            ck_assert_uint_eq(got[N_BYTES - 1], (unsigned char)n);
        if (!has_failed)
            break;
    }
}

TEST(dangerous_arguments_are_refused) {
    struct cushim_client *client = make_client();
    cushim_devptr block = block_of(client);
    struct cushim_graph *graph;
    unsigned char got[N_BYTES] = {0};
    int state;
    ck_assert_int_eq(cushim_client_d2d(client, block + 16, block, 17), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_d2d(client, block, block + 16, 17), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_d2d(client, block + 16, block, 16), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_h2d(client, block, NULL, 1), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_h2d(NULL, block, got, 0), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_begin(compute_of(client), NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_d2h(client, got, block, N_BYTES), CUSHIM_CAPTURE);
    ck_assert_int_eq(cushim_client_synchronize(client), CUSHIM_CAPTURE);
    ck_assert_int_eq(cushim_client_h2d(client, block, got, N_BYTES), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_status(compute_of(client), &state), CUSHIM_OK);
    ck_assert_int_eq(state, 1);
    ck_assert_int_eq(cushim_graph_end(compute_of(client), &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_synchronize(client), CUSHIM_OK);
}

TEST(strided_copies_need_the_kernel_library) {
    struct cushim_client *client = make_client();
    const int64_t shape[9] = {1}, strides[9] = {1};
    setenv("CUSHIM_KERNELS", "/nowhere/libcushim-kernels.so", 1);
    ck_assert_int_eq(cushim_client_strided(client, 1, 1, shape, strides, 9, 4), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_strided(client, 1, 1, NULL, strides, 1, 4), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_strided(client, 1, 1, shape, strides, -1, 4), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_client_strided(client, 1, 1, shape, strides, 1, 4), CUSHIM_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "library=libcushim-kernels.so.0"));
    ck_assert_ptr_null(strstr(cushim_last_error(), "driver"));
}

TEST(a_client_of_a_dead_context_can_be_destroyed) {
    struct cushim_context *context;
    struct cushim_client *client;
    unsigned char byte = 0;
    ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_create(context, NULL, &client), CUSHIM_OK);
    cushim_devptr block = block_of(client);
    struct cushim_event *event = record(client);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_client_h2d(client, block, &byte, 1), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_client_d2h_pipelined(client, &byte, block, 1, event),
                     CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_client_destroy(client), CUSHIM_OK);
}

SUITE() {
    return tests_run("client");
}
