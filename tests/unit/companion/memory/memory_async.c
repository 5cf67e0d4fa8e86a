/* Stream-ordered memory: one private driver pool per context. */
#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/stream.h"
#include "companion/context/address_map.h"
#include "companion/core/driver.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

#define is(expr, status) ck_assert_msg((expr) == (status), "%s: %s", #expr, cushim_last_error())
#define ok(expr)         is(expr, CUSHIM_OK)

/* Remove this entry point from the loaded driver. */
#define LACK(name) (CUSHIM_DRIVER(name) = (__typeof__(&name))0)

static void alloc_and_free(struct cushim_stream *s) {
    cushim_devptr p;
    ok(cushim_memory_alloc_async(s, 1000, &p));
    ok(cushim_memory_free_async(p, s));
    is(cushim_memory_free_async(p, s), CUSHIM_DOUBLEFREE);
}

TEST(a_context_has_one_pool_which_ends_with_it) {
    struct cushim_context *first, *second;
    struct cushim_stream *s, *t;
    ok(cushim_context_create(0, 0, &first));
    ok(cushim_context_create(0, 0, &second));
    ok(cushim_stream_create(first, 1, 0, &s));
    ok(cushim_stream_create(second, 1, 0, &t));
    alloc_and_free(s);
    alloc_and_free(s);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPoolCreate"), 1);
    alloc_and_free(t);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPoolCreate"), 2);
    ok(cushim_stream_destroy(s));
    ok(cushim_stream_destroy(t));
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPoolDestroy"), 0);
    ok(cushim_context_destroy(first));
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPoolDestroy"), 1);
    ok(cushim_context_destroy(second));
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPoolDestroy"), 2);
}

TEST(the_devices_own_pool_is_left_alone) {
    CUmemoryPool pool;
    cuuint64_t threshold = 1;
    alloc_and_free(NULL);
    ok(cushim_memory_async_threshold(NULL, 1 << 20));
    ck_assert_int_eq(SIM(cuDeviceGetDefaultMemPool)(&pool, 0), CUDA_SUCCESS);
    ck_assert_int_eq(
        SIM(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        CUDA_SUCCESS);
    ck_assert_uint_eq(threshold, 0);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemAllocAsync"), 0);
}

TEST(the_threshold_is_512_mib_until_it_is_set) {
    CUmemoryPool pool;
    cuuint64_t threshold = 0;
    cushim_devptr p;
    struct cushim_context *ctx;
    ok(cushim_context_primary(0, &ctx));
    ok(cushim_context_push(ctx));
    ok(cushim_memory_alloc_async(NULL, 64, &p));
    ck_assert_int_eq(SIM(cuPointerGetAttribute)(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p),
                     CUDA_SUCCESS);
    ck_assert_int_eq(
        SIM(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        CUDA_SUCCESS);
    ck_assert_uint_eq(threshold, 512ull << 20);
    ok(cushim_memory_async_threshold(NULL, 0));
    ck_assert_int_eq(
        SIM(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        CUDA_SUCCESS);
    ck_assert_uint_eq(threshold, 0);
    ok(cushim_memory_free_async(p, NULL));
}

TEST(a_driver_without_pools_gives_plain_memory) {
    cushim_devptr p;
    struct cushim_memory_info info = {.struct_size = sizeof info};
    ok(cushim_memory_free(0));
    ok(cushim_memory_info(NULL, &(size_t){0}, NULL)); /* to load the driver */
    LACK(cuMemPoolCreate);
    LACK(cuMemFreeAsync);
    ok(cushim_memory_alloc_async(NULL, 64, &p));
    ok(cushim_memory_query(p, &info));
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_DEVICE);
    ok(cushim_memory_free_async(p, NULL));
    is(cushim_memory_async_threshold(NULL, 1), CUSHIM_NOTSUPPORTED);
    ok(cushim_memory_async_trim(NULL, 0));
    ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
}

TEST(a_missing_entry_point_is_named) {
    static char page[4096];
    cushim_devptr p, q;
    void *pinned;
    ok(cushim_memory_alloc(NULL, 64, &q));
    LACK(cuMemAllocPitch_v2);
    LACK(cuMemHostRegister_v2);
    LACK(cuMemHostAlloc);
    LACK(cuMemsetD16_v2);
    LACK(cuIpcGetMemHandle);
    is(cushim_memory_alloc_pitch(NULL, 4, 4, 4, &p, &(size_t){0}), CUSHIM_NOSYM);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "cuMemAllocPitch"));
    is(cushim_host_register(NULL, page, sizeof page, 0), CUSHIM_NOSYM);
    is(cushim_host_alloc(NULL, 64, 0, &pinned), CUSHIM_NOSYM);
    is(cushim_memory_set16(q, 1, 4), CUSHIM_NOSYM);
    is(cushim_memory_ipc_get(q, page), CUSHIM_NOSYM);
    ok(cushim_memory_free(q));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

TEST(a_blocking_copy_is_over_when_it_returns) {
    char bytes[64] = {0};
    cushim_devptr p, managed;
    int done = 0;
    ok(cushim_memory_alloc(NULL, 64, &p));
    ok(cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
    SIM(sim_calls_reset)();
    ok(cushim_memory_d2d(p + 32, p, 32));
    ck_assert_uint_eq(SIM(sim_calls)("cuStreamSynchronize"), 1);
    ok(cushim_memory_h2d(p, bytes, 64));
    ck_assert_uint_eq(SIM(sim_calls)("cuStreamSynchronize"), 2);
    ok(cushim_memory_copy(managed, p, 64, CUSHIM_COPY_BY_ADDRESS));
    ck_assert_uint_eq(SIM(sim_calls)("cuStreamSynchronize"), 3);
    ok(cushim_memory_d2h(bytes, p, 64)); /* the driver itself waits for that */
    ck_assert_uint_eq(SIM(sim_calls)("cuStreamSynchronize"), 3);
    ok(cushim_stream_query(NULL, &done));
    ck_assert_int_eq(done, 1);
    ok(cushim_memory_free(p));
    ok(cushim_memory_free(managed));
}

/* There is no stream to queue the free on, so it waits for all work of the context. */
TEST(a_free_that_names_a_destroyed_stream_waits_for_all_work) {
    struct cushim_stream *gone, *busy;
    cushim_devptr ordered, plain, managed;
    ok(cushim_stream_create(NULL, 1, 0, &gone));
    ok(cushim_stream_create(NULL, 1, 0, &busy));
    ok(cushim_memory_alloc_async(gone, 1000, &ordered));
    ok(cushim_memory_alloc(NULL, 1000, &plain));
    ok(cushim_memory_alloc_managed(NULL, 1000, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
    ok(cushim_stream_destroy(gone));
    ok(cushim_memory_set8_async(ordered, 1, 1000, busy));
    ok(cushim_memory_free_async(ordered, gone));
    ck_assert_uint_eq(SIM(sim_pending)(), 0);
    is(cushim_memory_free_async(ordered, gone), CUSHIM_DOUBLEFREE);
    ok(cushim_memory_free_async(plain, gone));
    is(cushim_memory_free_async(managed, gone), CUSHIM_INVALID);
    is(cushim_memory_free_async(managed, (struct cushim_stream *)1), CUSHIM_INVALID);
    ok(cushim_memory_free(managed));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

SUITE() {
    return tests_run("memory async");
}
