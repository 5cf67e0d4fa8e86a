#include "cushim/memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cushim/arena.h"
#include "cushim/context.h"
#include "cushim/library.h"
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "companion/context/address_map.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

#define is(expr, status) ck_assert_msg((expr) == (status), "%s: %s", #expr, cushim_last_error())
#define ok(expr)         is(expr, CUSHIM_OK)
#define said(part)       ck_assert_msg(strstr(cushim_last_error(), part), "%s", cushim_last_error())

static const size_t NEGATIVE = (size_t)-1;

static cushim_devptr alloc(size_t bytes) {
    cushim_devptr p = 0;
    ok(cushim_memory_alloc(NULL, bytes, &p));
    return p;
}

TEST(a_size_of_zero_does_nothing) {
    cushim_devptr p = 1;
    size_t pitch = 1;
    void *host = &p;
    char h64[CUSHIM_IPC_BYTES];
    ok(cushim_memory_free(alloc(1)));
    SIM(sim_calls_reset)();
    ok(cushim_memory_alloc(NULL, 0, &p));
    ck_assert_uint_eq(p, 0);
    ok(cushim_memory_alloc_pitch(NULL, 0, 4, 4, &p, &pitch));
    ok(cushim_memory_alloc_pitch(NULL, 4, 0, 4, &p, &pitch));
    ck_assert_uint_eq(pitch, 0);
    ok(cushim_memory_alloc_managed(NULL, 0, CUSHIM_ATTACH_FLAG_GLOBAL, &p));
    ok(cushim_memory_alloc_async(NULL, 0, &p));
    ok(cushim_host_alloc(NULL, 0, 0, &host));
    ck_assert_ptr_null(host);
    ok(cushim_host_register(NULL, h64, 0, 0));
    ok(cushim_memory_adopt(NULL, 0, 0));
    ok(cushim_memory_attach(0, 0, CUSHIM_ATTACH_FLAG_GLOBAL, NULL));
    ok(cushim_memory_prefetch(0, 0, -1, NULL));
    ok(cushim_memory_set16(0, 1, 0));
    ok(cushim_memory_set32_async(0, 1, 0, NULL));
    ok(cushim_memory_set2d8(0, 4, 1, 0, 3, NULL));
    ok(cushim_memory_set2d8(0, 4, 1, 3, 0, NULL));
    ok(cushim_memory_h2d(0, NULL, 0));
    ok(cushim_memory_copy_async(0, 0, 0, CUSHIM_COPY_BY_ADDRESS, NULL));
    ok(cushim_memory_copy_peer(0, NULL, 0, NULL, 0));
    ok(cushim_memory_copy_peer_async(0, NULL, 0, NULL, 0, NULL));
    ok(cushim_memory_copy_2d(&(struct cushim_copy2d){.struct_size = sizeof(struct cushim_copy2d)},
                             NULL));
    ok(cushim_memory_copy_3d(&(struct cushim_copy3d){.struct_size = sizeof(struct cushim_copy3d)},
                             NULL));
    ok(cushim_memory_free(0));
    ok(cushim_memory_free_async(0, NULL));
    ok(cushim_memory_disown(0));
    ok(cushim_memory_ipc_close(0));
    ok(cushim_host_free(NULL));
    ok(cushim_host_unregister(NULL));
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
}

TEST(a_negative_size_is_refused_before_any_driver_call) {
    cushim_devptr p = 1;
    size_t pitch = 1;
    void *host = &p;
    ok(cushim_memory_free(alloc(1)));
    SIM(sim_calls_reset)();
    is(cushim_memory_alloc(NULL, NEGATIVE, &p), CUSHIM_INVALID);
    ck_assert_uint_eq(p, 0);
    said("bytes=-1");
    is(cushim_memory_alloc_pitch(NULL, NEGATIVE, 0, 4, &p, &pitch), CUSHIM_INVALID);
    is(cushim_memory_alloc_pitch(NULL, 1ull << 62, 4, 4, &p, &pitch), CUSHIM_INVALID);
    is(cushim_memory_alloc_pitch(NULL, 16, 4, 5, &p, &pitch), CUSHIM_INVALID);
    is(cushim_memory_alloc_managed(NULL, NEGATIVE, CUSHIM_ATTACH_FLAG_GLOBAL, &p), CUSHIM_INVALID);
    is(cushim_memory_alloc_managed(NULL, 8, 3, &p), CUSHIM_INVALID);
    is(cushim_memory_alloc_async(NULL, NEGATIVE, &p), CUSHIM_INVALID);
    is(cushim_host_alloc(NULL, NEGATIVE, 0, &host), CUSHIM_INVALID);
    is(cushim_host_alloc(NULL, 8, 8, &host), CUSHIM_INVALID);
    is(cushim_host_register(NULL, &p, NEGATIVE, 0), CUSHIM_INVALID);
    is(cushim_host_register(NULL, &p, 8, 16), CUSHIM_INVALID);
    is(cushim_memory_adopt(NULL, 4096, NEGATIVE), CUSHIM_INVALID);
    is(cushim_memory_set8(4096, 0, NEGATIVE), CUSHIM_INVALID);
    is(cushim_memory_set32(4096, 0, 1ull << 61), CUSHIM_INVALID);
    is(cushim_memory_set2d16(4096, NEGATIVE, 0, 4, 4, NULL), CUSHIM_INVALID);
    is(cushim_memory_d2d(4096, 8192, NEGATIVE), CUSHIM_INVALID);
    is(cushim_memory_copy(4096, 8192, 4, 5), CUSHIM_INVALID);
    is(cushim_memory_copy(4096, 8192, 4, -1), CUSHIM_INVALID);
    is(cushim_memory_copy_peer(4096, NULL, 8192, NULL, NEGATIVE), CUSHIM_INVALID);
    is(cushim_memory_async_threshold(NULL, NEGATIVE), CUSHIM_INVALID);
    is(cushim_memory_async_trim(NULL, NEGATIVE), CUSHIM_INVALID);
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
}

TEST(a_missing_out_parameter_is_refused) {
    is(cushim_memory_alloc(NULL, 1, NULL), CUSHIM_INVALID);
    is(cushim_memory_alloc_managed(NULL, 1, 1, NULL), CUSHIM_INVALID);
    is(cushim_memory_alloc_async(NULL, 1, NULL), CUSHIM_INVALID);
    is(cushim_memory_alloc_pitch(NULL, 1, 1, 4, NULL, NULL), CUSHIM_INVALID);
    is(cushim_host_alloc(NULL, 1, 0, NULL), CUSHIM_INVALID);
    is(cushim_host_register(NULL, NULL, 1, 0), CUSHIM_INVALID);
    is(cushim_memory_size(1, NULL), CUSHIM_INVALID);
    is(cushim_memory_range(1, NULL, NULL), CUSHIM_INVALID);
    is(cushim_memory_query(1, NULL), CUSHIM_INVALID);
    is(cushim_memory_info(NULL, NULL, NULL), CUSHIM_INVALID);
    is(cushim_memory_info_pools(NULL, NULL), CUSHIM_INVALID);
    is(cushim_memory_ipc_get(1, NULL), CUSHIM_INVALID);
    is(cushim_memory_copy_2d(NULL, NULL), CUSHIM_INVALID);
    is(cushim_memory_copy_3d(NULL, NULL), CUSHIM_INVALID);
    is(cushim_host_device_pointer(NULL, NULL), CUSHIM_INVALID);
    is(cushim_memory_h2d(0, "x", 1), CUSHIM_INVALID);
    is(cushim_memory_d2h(NULL, alloc(1), 1), CUSHIM_INVALID);
}

TEST(each_kind_is_freed_only_by_its_own_function) {
    static char page[4096];
    cushim_devptr device = alloc(64), managed, async;
    void *pinned;
    ok(cushim_memory_alloc_managed(NULL, 64, CUSHIM_ATTACH_FLAG_GLOBAL, &managed));
    ok(cushim_memory_alloc_async(NULL, 64, &async));
    ok(cushim_host_alloc(NULL, 64, 0, &pinned));
    ok(cushim_host_register(NULL, page, sizeof page, 0));
    is(cushim_memory_free((uintptr_t)pinned), CUSHIM_INVALID);
    said("pinned");
    is(cushim_memory_free((uintptr_t)page), CUSHIM_INVALID);
    is(cushim_memory_free(device + 1), CUSHIM_UNKNOWNPTR);
    is(cushim_memory_free_async(managed, NULL), CUSHIM_INVALID);
    is(cushim_host_free((void *)(uintptr_t)device), CUSHIM_INVALID);
    is(cushim_host_free(page), CUSHIM_INVALID);
    is(cushim_host_unregister(pinned), CUSHIM_INVALID);
    is(cushim_memory_disown(device), CUSHIM_INVALID);
    is(cushim_memory_ipc_close(device), CUSHIM_INVALID);
    is(cushim_memory_adopt(NULL, device, 64), CUSHIM_STATE);
    ck_assert_uint_eq(cushim_address_map_count(), 5);
    ok(cushim_memory_free(device));
    ok(cushim_memory_free(managed));
    ok(cushim_memory_free(async)); /* the driver accepts it there too */
    ok(cushim_host_free(pinned));
    ok(cushim_host_unregister(page));
    is(cushim_memory_free(managed), CUSHIM_DOUBLEFREE);
    is(cushim_host_free(pinned), CUSHIM_DOUBLEFREE);
    is(cushim_host_unregister(page), CUSHIM_UNKNOWNPTR);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
}

TEST(a_range_may_not_leave_its_block) {
    char bytes[64] = {0};
    cushim_devptr p = alloc(32), q = alloc(64);
    SIM(sim_calls_reset)();
    is(cushim_memory_h2d(p, bytes, 33), CUSHIM_INVALID);
    is(cushim_memory_h2d(p + 31, bytes, 2), CUSHIM_INVALID);
    is(cushim_memory_d2h(bytes, p + 1, 32), CUSHIM_INVALID);
    is(cushim_memory_d2d(q, p, 33), CUSHIM_INVALID);
    is(cushim_memory_d2d_async(p, q, 33, NULL), CUSHIM_INVALID);
    is(cushim_memory_copy_peer(q, NULL, p, NULL, 33), CUSHIM_INVALID);
    is(cushim_memory_set8(p, 1, 33), CUSHIM_INVALID);
    is(cushim_memory_set32_async(p, 1, 9, NULL), CUSHIM_INVALID);
    is(cushim_memory_set2d8(p, 16, 1, 16, 3, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemcpyHtoD_v2"), 0);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemsetD8_v2"), 0);
    ok(cushim_memory_h2d(p + 31, bytes, 1));
    ok(cushim_memory_set2d8(p, 16, 1, 16, 2, NULL));
}

TEST(values_and_rows_must_be_aligned_and_within_their_pitch) {
    cushim_devptr p = alloc(256);
    is(cushim_memory_set16(p + 1, 1, 1), CUSHIM_INVALID);
    is(cushim_memory_set32_async(p + 2, 1, 1, NULL), CUSHIM_INVALID);
    is(cushim_memory_set2d32(p, 30, 1, 2, 2, NULL), CUSHIM_INVALID);
    is(cushim_memory_set2d16(p, 8, 1, 5, 1, NULL), CUSHIM_INVALID);
    is(cushim_memory_set2d8(p, 0, 1, 5, 1, NULL), CUSHIM_INVALID);
    ok(cushim_memory_set2d16(p, 8, 1, 4, 2, NULL));
}

TEST(the_kind_of_a_copy_must_match_the_address_map) {
    char bytes[16] = {0};
    cushim_devptr p = alloc(16), dp;
    void *pinned, *mapped;
    ok(cushim_host_alloc(NULL, 16, 0, &pinned));
    ok(cushim_host_alloc(NULL, 16, CUSHIM_HOST_FLAG_MAPPED, &mapped));
    is(cushim_memory_copy(p, (uintptr_t)bytes, 16, CUSHIM_COPY_H2H), CUSHIM_INVALID);
    is(cushim_memory_copy((uintptr_t)bytes, p, 16, CUSHIM_COPY_H2D), CUSHIM_INVALID);
    is(cushim_memory_copy_async((uintptr_t)pinned, p, 16, CUSHIM_COPY_D2D, NULL), CUSHIM_INVALID);
    is(cushim_memory_set8((uintptr_t)pinned, 1, 1), CUSHIM_INVALID);
    ok(cushim_memory_copy_async((uintptr_t)mapped, p, 16, CUSHIM_COPY_D2D, NULL));
    ok(cushim_memory_copy_async((uintptr_t)mapped, p, 16, CUSHIM_COPY_BY_ADDRESS, NULL));
    ok(cushim_memory_copy((uintptr_t)pinned, (uintptr_t)bytes, 16, CUSHIM_COPY_H2H));
    is(cushim_host_device_pointer((void *)(uintptr_t)p, &dp), CUSHIM_INVALID);
    is(cushim_memory_prefetch(p, 16, -1, NULL), CUSHIM_INVALID);
    is(cushim_memory_attach(p, 16, CUSHIM_ATTACH_FLAG_HOST, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemPrefetchAsync_v2"), 0);
    ck_assert_uint_eq(SIM(sim_calls)("cuStreamAttachMemAsync"), 0);
}

TEST(memory_of_another_context_is_refused) {
    struct cushim_context *primary, *owned;
    struct cushim_stream *s;
    cushim_devptr p, q;
    ok(cushim_context_primary(0, &primary));
    ok(cushim_context_create(1, 0, &owned));
    ok(cushim_stream_create(owned, 1, 0, &s));
    ok(cushim_memory_alloc(primary, 64, &p));
    ok(cushim_memory_alloc(owned, 64, &q));
    is(cushim_memory_set8_async(p, 1, 1, s), CUSHIM_BADDEVICE);
    is(cushim_memory_d2d(p, q, 64), CUSHIM_BADDEVICE);
    is(cushim_memory_free_async(p, s), CUSHIM_BADDEVICE);
    is(cushim_memory_adopt(owned, p + 1, 1), CUSHIM_BADDEVICE);
    is(cushim_memory_copy_peer(p, owned, q, owned, 64), CUSHIM_BADDEVICE);
    ok(cushim_memory_copy_peer(p, primary, q, owned, 64));
    ok(cushim_memory_copy_peer_async(p, NULL, q, NULL, 64, s));
    struct cushim_copy3d box = {.struct_size = sizeof box,
                                .width_bytes = 8,
                                .rows = 2,
                                .slices = 2,
                                .dst = {.address = p},
                                .src = {.address = q}};
    ok(cushim_memory_copy_3d(&box, s));
    ck_assert_uint_eq(SIM(sim_calls)("cuMemcpy3DPeerAsync"), 1);
    box.dst.ctx = owned;
    is(cushim_memory_copy_3d(&box, s), CUSHIM_BADDEVICE);
    ok(cushim_stream_synchronize(s));
    ok(cushim_memory_free(p));
    ok(cushim_context_destroy(owned));
    is(cushim_memory_set8(q, 1, 1), CUSHIM_DEADCONTEXT);
    ok(cushim_memory_free(q));
    is(cushim_memory_free(q), CUSHIM_DOUBLEFREE);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
}

TEST(a_shape_may_not_leave_its_pitch_its_height_or_its_block) {
    char bytes[64];
    cushim_devptr p = alloc(64);
    const struct cushim_copy2d good = {
        .struct_size = sizeof good,
        .flags = CUSHIM_COPY_FLAG_BLOCKING,
        .width_bytes = 6,
        .rows = 8,
        .dst = {.address = p, .place = CUSHIM_PLACE_DEVICE, .pitch_bytes = 8},
        .src = {.address = (uintptr_t)bytes, .place = CUSHIM_PLACE_HOST, .pitch_bytes = 8}};
    struct cushim_copy2d copy = good;
    ok(cushim_memory_copy_2d(&copy, NULL));
    copy.dst.x_bytes = 3;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.dst.y = 1;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.rows = (size_t)1 << 62;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.dst.place = CUSHIM_PLACE_HOST;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.flags = 2;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.src.z = 1;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_INVALID);
    copy = good, copy.struct_size = 4;
    is(cushim_memory_copy_2d(&copy, NULL), CUSHIM_ABI);
    struct cushim_copy3d box = {.struct_size = sizeof box,
                                .width_bytes = 4,
                                .rows = 2,
                                .slices = 4,
                                .dst = {.address = p, .pitch_bytes = 8, .height = 2},
                                .src = {.address = (uintptr_t)bytes}};
    ok(cushim_memory_copy_3d(&box, NULL));
    unsigned long n_boxes = SIM(sim_calls)("cuMemcpy3DAsync_v2");
    box.dst.height = 1;
    is(cushim_memory_copy_3d(&box, NULL), CUSHIM_INVALID);
    box.dst.height = 3;
    is(cushim_memory_copy_3d(&box, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemcpy3DAsync_v2"), n_boxes);
}

TEST(an_address_is_described_whatever_its_owner) {
    struct cushim_memory_info info = {.struct_size = sizeof info};
    CUdeviceptr foreign;
    int local;
    void *pinned;
    ok(cushim_host_alloc(NULL, 100, CUSHIM_HOST_FLAG_PORTABLE, &pinned));
    ok(cushim_memory_query((uintptr_t)pinned + 99, &info));
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_PINNED);
    ck_assert_uint_eq(info.flags, CUSHIM_HOST_FLAG_PORTABLE);
    ck_assert_uint_eq(info.bytes, 100);
    struct cushim_context *ctx;
    ok(cushim_context_primary(0, &ctx));
    ok(cushim_context_push(ctx));
    ck_assert_int_eq(SIM(cuMemAlloc_v2)(&foreign, 300), CUDA_SUCCESS);
    ok(cushim_memory_query(foreign + 5, &info));
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_FOREIGN);
    ck_assert_int_eq(info.owner, CUSHIM_OWNER_NONE);
    ck_assert_uint_eq(info.start, foreign);
    is(cushim_memory_query((uintptr_t)&local, &info), CUSHIM_UNKNOWNPTR);
    ck_assert_uint_eq(info.start, 0);
    cushim_devptr base;
    is(cushim_memory_range((uintptr_t)&local, &base, NULL), CUSHIM_UNKNOWNPTR);
    is(cushim_memory_free(foreign), CUSHIM_UNKNOWNPTR);
    is(cushim_memory_adopt(NULL, foreign, 301), CUSHIM_INVALID);
    ok(cushim_memory_adopt(NULL, foreign, 300));
    is(cushim_memory_adopt(NULL, foreign, 300), CUSHIM_STATE);
    is(cushim_memory_free(foreign), CUSHIM_STATE);
    ok(cushim_memory_query(foreign, &info));
    ck_assert_int_eq(info.kind, CUSHIM_MEMORY_ADOPTED);
    ok(cushim_memory_disown(foreign));
    ck_assert_int_eq(SIM(cuMemFree_v2)(foreign), CUDA_SUCCESS);
    info.struct_size = 4;
    is(cushim_memory_query(foreign, &info), CUSHIM_ABI);
}

TEST(an_exported_handle_covers_a_whole_allocation) {
    char h64[CUSHIM_IPC_BYTES], zero[CUSHIM_IPC_BYTES] = {0};
    cushim_devptr p = alloc(4096), q = 1;
    ok(cushim_memory_ipc_get(p, h64));
    is(cushim_memory_ipc_get(p + 256, h64), CUSHIM_STATE);
    ck_assert_mem_eq(h64, zero, sizeof h64);
    is(cushim_memory_ipc_open(NULL, zero, &q), CUSHIM_INVALID);
    ck_assert_uint_eq(q, 0);
    ok(cushim_memory_free(p));
}

TEST(a_block_of_a_pool_or_arena_has_a_handle_only_if_it_is_its_own_allocation) {
    struct cushim_pool_options options;
    struct cushim_arena_options of_arena;
    struct cushim_pool *shared, *dedicated;
    struct cushim_arena *arena;
    cushim_devptr p;
    char h64[CUSHIM_IPC_BYTES];
    cushim_pool_options_default(&options);
    ok(cushim_pool_create(&options, &shared));
    options.dedicated = 1;
    ok(cushim_pool_create(&options, &dedicated));
    ok(cushim_pool_alloc(shared, 0, CUSHIM_MEMORY_DEVICE, 64 << 10, NULL, &p));
    is(cushim_memory_ipc_get(p, h64), CUSHIM_STATE);
    ok(cushim_pool_destroy(shared)); /* the block and its neighbours stay */
    is(cushim_memory_ipc_get(p, h64), CUSHIM_STATE);
    ok(cushim_memory_free(p));
    ok(cushim_pool_alloc(dedicated, 0, CUSHIM_MEMORY_DEVICE, 8 << 20, NULL, &p));
    ok(cushim_memory_ipc_get(p, h64));
    ok(cushim_pool_free(dedicated, 0, p, 0, NULL));
    ok(cushim_pool_destroy(dedicated));
    cushim_arena_options_default(&of_arena);
    of_arena.capacity_bytes = 1 << 20;
    ok(cushim_arena_create(&of_arena, &arena));
    ok(cushim_arena_alloc(arena, 0, CUSHIM_MEMORY_DEVICE, 4096, NULL, &p, NULL));
    is(cushim_memory_ipc_get(p, h64), CUSHIM_STATE);
    ok(cushim_arena_destroy(arena));
}

/* The other process opens, checks, changes and closes the memory whose handle came through the
 * pipe. */
static int use_handle(int pipe_end) {
    char h64[CUSHIM_IPC_BYTES];
    cushim_devptr p = 0, again = 1;
    uint32_t word = 0;
    if (read(pipe_end, h64, sizeof h64) != sizeof h64)
        return 1;
    if (cushim_memory_ipc_open(NULL, h64, &p) != CUSHIM_OK)
        return 2;
    if (cushim_memory_ipc_open(NULL, h64, &again) != CUSHIM_STATE || again)
        return 3;
    if (cushim_memory_d2h(&word, p, 4) != CUSHIM_OK || word != 0x01010101)
        return 4;
    if (cushim_memory_set8(p, 2, 4097) != CUSHIM_INVALID ||
        cushim_memory_set8(p, 2, 4096) != CUSHIM_OK || cushim_context_synchronize(NULL))
        return 5;
    if (cushim_memory_free(p) != CUSHIM_STATE || cushim_memory_ipc_close(p) != CUSHIM_OK ||
        cushim_memory_ipc_close(p) != CUSHIM_DOUBLEFREE)
        return 6;
    /* If the second mapping were still open, the driver would know the range. */
    return cushim_memory_range(p, &again, NULL) == CUSHIM_UNKNOWNPTR ? 0 : 7;
}

TEST(device_memory_is_shared_with_another_process) {
    char h64[CUSHIM_IPC_BYTES];
    int ends[2], answer;
    uint32_t word = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork(); /* before the first use of CUDA, because it is a separate process */
    if (child == 0)
        _exit(use_handle(ends[0]));
    cushim_devptr p = alloc(4096);
    ok(cushim_memory_set8(p, 1, 4096));
    ok(cushim_context_synchronize(NULL));
    ok(cushim_memory_ipc_get(p, h64));
    ck_assert_int_eq(write(ends[1], h64, sizeof h64), sizeof h64);
    ck_assert_int_eq(waitpid(child, &answer, 0), child);
    ck_assert_int_eq(answer, 0);
    ok(cushim_memory_d2h(&word, p + 4092, 4));
    ck_assert_uint_eq(word, 0x02020202);
    ok(cushim_memory_free(p));
}

TEST(registering_memory_that_the_address_map_already_has_is_undone) {
    static char page[4096] __attribute__((aligned(4096)));
    struct cushim_address_map_row row;
    cushim_devptr p = alloc(1);
    ck_assert(cushim_address_map_find(p, &row));
    struct cushim_address_map_row other = {.start = (uintptr_t)page + 100,
                                           .bytes = 1,
                                           .kind = CUSHIM_MEMORY_REGISTERED,
                                           .context = row.context};
    ok(cushim_address_map_record(&other));
    cushim_address_map_drop(&row);
    is(cushim_host_register(NULL, page, sizeof page, 0), CUSHIM_STATE);
    ck_assert_uint_eq(SIM(sim_calls)("cuMemHostUnregister"), 1);
    ck_assert_uint_eq(cushim_address_map_count(), 2);
}

TEST(without_a_driver_every_function_says_so) {
    cushim_devptr p = 1;
    setenv("CUSHIM_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    is(cushim_memory_alloc(NULL, 1, &p), CUSHIM_NOCUDA);
    ck_assert_uint_eq(p, 0);
    is(cushim_memory_h2d(1, &p, 1), CUSHIM_NOCUDA);
    is(cushim_memory_set8_async(1, 1, 1, NULL), CUSHIM_NOCUDA);
    is(cushim_host_register(NULL, &p, 8, 0), CUSHIM_NOCUDA);
    is(cushim_memory_free((uintptr_t)&p), CUSHIM_UNKNOWNPTR);
    ok(cushim_memory_free(0));
}

SUITE() {
    return tests_run("memory");
}
