/* Every driver call of every function fails once: nothing leaks, nothing is lost, the next call
 * works. */
#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/stream.h"
#include "companion/context/address_map.h"
#include "companion/context/pressure.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

#define is(expr, status) ck_assert_msg((expr) == (status), "%s: %s", #expr, cushim_last_error())
#define ok(expr)         is(expr, CUSHIM_OK)

/* The calls under test, between an allocation and its free; returns the first failure. */
typedef enum cushim_status scenario_fn(void);

static struct cushim_stream *stream;
static char page[4096] __attribute__((aligned(4096)));

/* A failed free leaves the memory allocated, so the second free succeeds. */
static enum cushim_status free_surely(enum cushim_status (*release)(cushim_devptr),
                                      cushim_devptr p) {
    enum cushim_status status = release(p);
    if (status != CUSHIM_OK)
        ok(release(p));
    is(release(p), CUSHIM_DOUBLEFREE);
    return status;
}

static enum cushim_status first_of(enum cushim_status a, enum cushim_status b) {
    return a != CUSHIM_OK ? a : b;
}

static enum cushim_status device_memory(void) {
    size_t n;
    cushim_devptr base, p = 1;
    char bytes[64] = {0};
    enum cushim_status status = cushim_memory_alloc(NULL, 64, &p);
    if (status != CUSHIM_OK) {
        ck_assert_uint_eq(p, 0);
        return status;
    }
    status = first_of(status, cushim_memory_set8(p, 1, 64));
    status = first_of(status, cushim_memory_set32_async(p, 1, 16, stream));
    status = first_of(status, cushim_memory_set2d16(p, 16, 1, 8, 4, stream));
    status = first_of(status, cushim_memory_h2d(p, bytes, 64));
    status = first_of(status, cushim_memory_d2h(bytes, p, 64));
    status = first_of(status, cushim_memory_d2d(p + 32, p, 32));
    status = first_of(status, cushim_memory_d2d_async(p + 32, p, 32, stream));
    status = first_of(status, cushim_memory_range(p, &base, &n));
    status = first_of(status, cushim_memory_info(NULL, &n, NULL));
    status = first_of(status, cushim_memory_ipc_get(p, bytes));
    return first_of(status, free_surely(cushim_memory_free, p));
}

static enum cushim_status rows(void) {
    size_t pitch = 1;
    cushim_devptr p = 1;
    char bytes[64] = {0};
    enum cushim_status status = cushim_memory_alloc_pitch(NULL, 16, 4, 4, &p, &pitch);
    if (status != CUSHIM_OK) {
        ck_assert(p == 0 && pitch == 0);
        return status;
    }
    const struct cushim_copy2d copy = {.struct_size = sizeof copy,
                                       .flags = CUSHIM_COPY_FLAG_BLOCKING,
                                       .width_bytes = 16,
                                       .rows = 4,
                                       .dst = {.address = p, .pitch_bytes = pitch},
                                       .src = {.address = (uintptr_t)bytes}};
    const struct cushim_copy3d box = {.struct_size = sizeof box,
                                      .width_bytes = 16,
                                      .rows = 2,
                                      .slices = 2,
                                      .dst = {.address = p},
                                      .src = {.address = (uintptr_t)bytes}};
    status = first_of(status, cushim_memory_copy_2d(&copy, stream));
    status = first_of(status, cushim_memory_copy_3d(&box, stream));
    status = first_of(status, cushim_stream_synchronize(stream));
    return first_of(status, free_surely(cushim_memory_free, p));
}

static enum cushim_status managed_memory(void) {
    cushim_devptr p = 1;
    enum cushim_status status =
        cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &p);
    if (status != CUSHIM_OK) {
        ck_assert_uint_eq(p, 0);
        return status;
    }
    status = first_of(status, cushim_memory_attach(p, 64, CUSHIM_ATTACH_FLAG_SINGLE, stream));
    status = first_of(status, cushim_memory_prefetch(p, 64, -1, stream));
    status = first_of(status, cushim_memory_prefetch(p, 64, 0, stream));
    return first_of(status, free_surely(cushim_memory_free, p));
}

static enum cushim_status free_on_stream(cushim_devptr p) {
    return cushim_memory_free_async(p, stream);
}

static enum cushim_status ordered_memory(void) {
    cushim_devptr p = 1;
    enum cushim_status status = cushim_memory_alloc_async(stream, 64, &p);
    if (status != CUSHIM_OK) {
        ck_assert_uint_eq(p, 0);
        return status;
    }
    status = first_of(status, free_surely(free_on_stream, p));
    status = first_of(status, cushim_memory_async_threshold(NULL, 1 << 20));
    status = first_of(status, cushim_memory_async_trim(NULL, 0));
    return first_of(status, cushim_stream_synchronize(stream));
}

static enum cushim_status free_host(cushim_devptr p) {
    return cushim_host_free((void *)(uintptr_t)p);
}

static enum cushim_status pinned_memory(void) {
    void *p = page;
    cushim_devptr dp;
    enum cushim_status status = cushim_host_alloc(NULL, 64, CUSHIM_HOST_FLAG_MAPPED, &p);
    if (status != CUSHIM_OK) {
        ck_assert_ptr_null(p);
        return status;
    }
    status = first_of(status, cushim_host_device_pointer(p, &dp));
    return first_of(status, free_surely(free_host, (uintptr_t)p));
}

static enum cushim_status registered_memory(void) {
    enum cushim_status status = cushim_host_register(NULL, page, sizeof page, 0);
    if (status != CUSHIM_OK)
        return status;
    status = cushim_host_unregister(page);
    if (status != CUSHIM_OK)
        ok(cushim_host_unregister(page));
    is(cushim_host_unregister(page), CUSHIM_UNKNOWNPTR);
    return status;
}

static enum cushim_status adopted_memory(void) {
    CUdeviceptr foreign = 0;
    struct cushim_context *ctx = NULL;
    enum cushim_status status = cushim_context_primary(0, &ctx);
    status = first_of(status, cushim_context_push(ctx));
    if (status != CUSHIM_OK)
        return status;
    if (SIM(cuMemAlloc_v2)(&foreign, 64) == CUDA_SUCCESS) {
        status = cushim_memory_adopt(NULL, foreign, 64);
        if (status == CUSHIM_OK)
            ok(cushim_memory_disown(foreign));
        if (SIM(cuMemFree_v2)(foreign) != CUDA_SUCCESS)
            ck_assert_int_eq(SIM(cuMemFree_v2)(foreign), CUDA_SUCCESS);
    }
    enum cushim_status popped = cushim_context_pop(&ctx);
    return first_of(status, popped);
}

static enum cushim_status peers(void) {
    struct cushim_context *other = NULL;
    cushim_devptr p = 0, q = 0;
    enum cushim_status status = cushim_context_primary(1, &other);
    status = first_of(status, cushim_memory_alloc(NULL, 64, &p));
    if (status == CUSHIM_OK)
        status = cushim_memory_alloc(other, 64, &q);
    if (status == CUSHIM_OK)
        status = cushim_memory_copy_peer(q, NULL, p, NULL, 64);
    if (status == CUSHIM_OK)
        status = cushim_memory_copy_peer_async(q, other, p, NULL, 64, stream);
    if (p)
        status = first_of(status, free_surely(cushim_memory_free, p));
    if (q)
        status = first_of(status, free_surely(cushim_memory_free, q));
    return status;
}

static void fail_each(scenario_fn *scenario, CUresult result) {
    ok(cushim_stream_create(NULL, 1, 0, &stream));
    unsigned long n = 0;
    for (bool has_failed = true; has_failed;) {
        SIM(sim_fail_at)(++n, result);
        enum cushim_status status = scenario();
        has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ok(cushim_context_synchronize(NULL));
        ck_assert_uint_eq(cushim_address_map_count(), 0);
        ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
        if (!has_failed)
            ck_assert_msg(status == CUSHIM_OK, "%s", cushim_last_error());
    }
    ck_assert_uint_gt(n, 4);
    ok(cushim_stream_destroy(stream));
}

TEST(a_refused_driver_call_leaves_nothing_behind, .n = 8) {
    static scenario_fn *const scenarios[] = {device_memory,  rows,          managed_memory,
                                             ordered_memory, pinned_memory, registered_memory,
                                             adopted_memory, peers};
    fail_each(scenarios[_i], CUDA_ERROR_UNKNOWN);
    fail_each(scenarios[_i], CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- memory pressure ---- */

static cushim_devptr hoard;
static size_t n_asked;

static size_t give_hoard(struct cushim_context_object *context, size_t bytes) {
    (void)context;
    n_asked++;
    if (!hoard)
        return 0;
    ck_assert_int_eq(SIM(cuMemFree_v2)(hoard), CUDA_SUCCESS);
    hoard = 0;
    return bytes;
}

static void count_hoard(struct cushim_context_object *context, struct cushim_pressure_held *held) {
    (void)context;
    held->cached_bytes += hoard ? 111 : 0;
    held->live_bytes += 222;
    held->reusable_bytes += hoard ? 99 : 0;
}

static bool release_mine(const char *what, uint64_t start, bool is_host,
                         enum cushim_status *status) {
    ck_assert_str_eq(what, is_host ? "cushim_host_free" : "cushim_memory_free");
    *status = CUSHIM_OK;
    return start == 0x7700;
}

TEST(idle_blocks_of_pools_are_released_before_the_driver_is_asked_again) {
    static struct cushim_pressure pressure = {
        .give = give_hoard, .count = count_hoard, .release = release_mine};
    size_t n_free, reusable;
    cushim_devptr p = 1;
    cushim_pressure_add(&pressure);
    cushim_pressure_add(&pressure);
    ok(cushim_memory_info(NULL, &n_free, NULL));
    size_t bytes = n_free / 2 + (8 << 20);
    ok(cushim_memory_alloc(NULL, bytes, &hoard));
    ok(cushim_memory_info_pools(NULL, &reusable));
    ck_assert_uint_eq(reusable, 99);
    struct cushim_address_map_row row;
    ok(cushim_address_map_erase(hoard, &row)); /* from here on it belongs to a pool, not to a row */
    cushim_address_map_drop(&row);
    ok(cushim_memory_alloc(NULL, bytes, &p));
    ck_assert_uint_eq(n_asked, 1);
    cushim_devptr q = 1;
    is(cushim_memory_alloc(NULL, bytes, &q), CUSHIM_NOMEM);
    ck_assert_uint_eq(n_asked, 2);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "pools_cached=0 pools_live=222"));
    ok(cushim_memory_free(p));
}

TEST(a_block_that_outlives_its_pool_is_freed_by_its_owner) {
    static struct cushim_pressure pressure = {.release = release_mine};
    ok(cushim_memory_free(0));
    is(cushim_memory_free(0x7700), CUSHIM_UNKNOWNPTR);
    cushim_pressure_add(&pressure);
    ok(cushim_memory_free(0x7700));
    ok(cushim_host_free((void *)0x7700));
    is(cushim_memory_free(0x7701), CUSHIM_UNKNOWNPTR);
}

TEST(new_memory_at_the_address_of_a_dead_contexts_block_is_new) {
    struct cushim_context *first, *second;
    cushim_devptr p, q;
    ok(cushim_context_create(0, 0, &first));
    ok(cushim_memory_alloc(first, 4 << 20, &p));
    ok(cushim_context_destroy(first));
    ok(cushim_context_create(0, 0, &second));
    ok(cushim_memory_alloc(second, 8 << 20, &q));
    ck_assert_uint_eq(p, q); /* the device returns the lowest free pages */
    size_t n;
    ok(cushim_memory_size(q, &n));
    ck_assert_uint_eq(n, 8 << 20);
    ok(cushim_memory_free(q));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

SUITE() {
    return tests_run("memory failure");
}
