/* Mapped memory: the views of host and device, refusals, and frees. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "companion/context/address_map.h"
#include "tests/unit/companion/mapped/mapped_fixture.h"

TEST(host_and_device_see_the_same_bytes_of_coherent_memory) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *mapped = alloc(mapper, 4097, 0);
    char *host = host_of(mapped), back[4097];
    size_t bytes;
    int yes;
    for (int i = 0; i < 4097; i++)
        host[i] = (char)(i * 7);
    read_device(back, device_of(mapped), sizeof back);
    ck_assert_mem_eq(back, host, sizeof back);
    set_device(device_of(mapped) + 4096, 99, 1);
    ck_assert_int_eq(host[4096], 99);
    ck_assert_int_eq(host[4095], (char)(4095 * 7));
    ck_ok(cushim_mapped_coherent(mapped, &yes));
    ck_assert_int_eq(yes, 1);
    ck_ok(cushim_mapped_atom(mapped, &bytes));
    ck_assert_uint_eq(bytes, 1);
    ck_ok(cushim_mapped_size(mapped, &bytes));
    ck_assert_uint_eq(bytes, 4097);
    ck_ok(cushim_mapped_flush(mapped, 3, 5));
    ck_ok(cushim_mapped_invalidate(mapped, 3, 5));
    ck_assert_uint_eq(fake()->n_flushes + fake()->n_invalidates, 0);
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(memory_that_is_not_coherent_is_seen_after_a_flush_and_an_invalidate) {
    struct cushim_mapper *mapper = open_mapper(CUSHIM_MAPPER_FLAG_NON_COHERENT);
    struct cushim_mapped *mapped = alloc(mapper, 300, 0);
    char *host = host_of(mapped);
    size_t atom;
    int yes = 1;
    ck_ok(cushim_mapped_coherent(mapped, &yes));
    ck_assert_int_eq(yes, 0);
    ck_ok(cushim_mapped_atom(mapped, &atom));
    ck_assert_uint_eq(atom, 64);
    memset(host, 5, 300);
    ck_assert_int_eq(device_byte(mapped, 64), 0);
    ck_ok(cushim_mapped_flush(mapped, 64, 64));
    ck_assert_int_eq(device_byte(mapped, 63), 0);
    ck_assert_int_eq(device_byte(mapped, 64), 5);
    ck_assert_int_eq(device_byte(mapped, 128), 0);
    ck_ok(cushim_mapped_flush(mapped, 256, 44)); /* half an atom at the end */
    ck_assert_int_eq(device_byte(mapped, 299), 5);
    set_device(device_of(mapped), 9, 300);
    ck_assert_int_eq(host[299], 5);
    ck_ok(cushim_mapped_invalidate(mapped, 256, 44));
    ck_assert_int_eq(host[299], 9);
    ck_assert_int_eq(host[255], 5);
    ck_ok(cushim_mapped_invalidate(mapped, 0, 300));
    ck_assert_int_eq(host[0], 9);
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(ranges_that_end_inside_an_atom_or_beyond_the_end_are_refused) {
    struct cushim_mapper *mapper = open_mapper(CUSHIM_MAPPER_FLAG_NON_COHERENT);
    struct cushim_mapped *mapped = alloc(mapper, 300, 0);
    ck_is(cushim_mapped_flush(mapped, 1, 64), CUSHIM_INVALID);
    ck_said("off=1 bytes=64 size=300 atom=64");
    ck_is(cushim_mapped_flush(mapped, 64, 63), CUSHIM_INVALID);
    ck_is(cushim_mapped_flush(mapped, 256, 45), CUSHIM_INVALID);
    ck_is(cushim_mapped_flush(mapped, 256, 64), CUSHIM_INVALID);
    ck_is(cushim_mapped_invalidate(mapped, 320, 0), CUSHIM_INVALID);
    ck_is(cushim_mapped_invalidate(mapped, 64, SIZE_MAX), CUSHIM_INVALID);
    ck_assert_uint_eq(fake()->n_flushes + fake()->n_invalidates, 0);
    ck_ok(cushim_mapped_flush(mapped, 64, 0));
    ck_assert_uint_eq(fake()->n_flushes, 0);
    ck_ok(cushim_mapped_free(mapped));
}

TEST(coherent_memory_can_be_treated_as_if_it_were_not) {
    /* no block is left that is really not coherent */
    fake()->types[2] = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    struct cushim_mapper *mapper = open_mapper(CUSHIM_MAPPER_FLAG_NON_COHERENT);
    struct cushim_mapped *mapped = alloc(mapper, 128, 0);
    int yes = 1;
    ck_ok(cushim_mapped_coherent(mapped, &yes));
    ck_assert_int_eq(yes, 0);
    ck_is(cushim_mapped_flush(mapped, 1, 1), CUSHIM_INVALID);
    ck_ok(cushim_mapped_flush(mapped, 0, 128));
    ck_assert_uint_eq(fake()->n_flushes, 1);
    ck_ok(cushim_mapped_free(mapped));
}

TEST(invalid_arguments_are_refused) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *mapped = (struct cushim_mapped *)1;
    size_t n = 7;
    void *p = &n;
    ck_is(cushim_mapped_alloc(mapper, 0, 0, &mapped), CUSHIM_INVALID);
    ck_assert_ptr_null(mapped);
    ck_is(cushim_mapped_alloc(mapper, SIZE_MAX, 0, &mapped), CUSHIM_INVALID);
    ck_is(cushim_mapped_alloc(mapper, 1, 2, &mapped), CUSHIM_INVALID);
    ck_is(cushim_mapped_alloc(mapper, 1, 0, NULL), CUSHIM_INVALID);
    ck_is(cushim_mapped_alloc(NULL, 1, 0, &mapped), CUSHIM_INVALID);
    ck_is(cushim_mapped_alloc((struct cushim_mapper *)0x1234, 1, 0, &mapped), CUSHIM_BADHANDLE);
    ck_is(cushim_mapped_host((struct cushim_mapped *)mapper, &p), CUSHIM_BADHANDLE);
    ck_assert_ptr_null(p);
    ck_is(cushim_mapped_host(NULL, &p), CUSHIM_INVALID);
    ck_is(cushim_mapped_size((struct cushim_mapped *)mapper, NULL), CUSHIM_INVALID);
    ck_is(cushim_mapper_budget(mapper, NULL, &n), CUSHIM_INVALID);
    ck_assert_uint_eq(n, 0);
    ck_ok(cushim_mapped_free(NULL));
    ck_ok(cushim_mapper_close(NULL));
    ck_is(cushim_mapped_free((struct cushim_mapped *)0x1234), CUSHIM_BADHANDLE);
    ck_is(cushim_mapped_copy_in(NULL, &n, 1), CUSHIM_INVALID);
    ck_is(cushim_mapped_copy_out(&n, NULL, 1), CUSHIM_INVALID);
    ck_is(cushim_mapped_copy_out(&n, &n, SIZE_MAX), CUSHIM_INVALID);
    ck_ok(cushim_mapped_copy_in(NULL, NULL, 0));
    ck_ok(cushim_mapper_close(mapper));
    ck_is(cushim_mapper_close(mapper), CUSHIM_BADHANDLE);
    check_nothing_left();
}

TEST(running_out_of_memory_is_reported_and_recovers) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *mapped = alloc(mapper, 40 << 20, 0), *more;
    ck_is(cushim_mapped_alloc(mapper, 1000000000000000, 0, &more), CUSHIM_NOMEM);
    ck_said("vkAllocateMemory failed: CUSHIM_NOMEM: ");
    ck_said("(result=VK_ERROR_OUT_OF_DEVICE_MEMORY asked=1000000000000000 free=0 total=67108864)");
    ck_assert_ptr_null(more);
    ck_is(cushim_mapped_alloc(mapper, 40 << 20, 0, &more), CUSHIM_NOMEM);
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapped_free(alloc(mapper, 40 << 20, 0)));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(a_block_is_in_the_address_map_until_its_free) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *mapped = alloc(mapper, 100, 0);
    struct cushim_address_map_row row;
    CUdeviceptr at = device_of(mapped);
    ck_assert(cushim_address_map_find(at + 99, &row));
    ck_assert_int_eq(row.kind, CUSHIM_MEMORY_MAPPED);
    ck_assert_ptr_eq(row.owner->handle, mapped);
    cushim_address_map_drop(&row);
    ck_assert(!cushim_address_map_find(at + 100, &row));
    ck_ok(cushim_mapped_free(mapped));
    ck_assert(!cushim_address_map_find(at, &row));
    ck_is(cushim_mapped_free(mapped), CUSHIM_BADHANDLE);
    ck_is(cushim_mapped_device(mapped, &(cushim_devptr){0}), CUSHIM_BADHANDLE);
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(a_closed_mapper_keeps_its_memory_and_the_last_memory_closes_vulkan) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *a = alloc(mapper, 100, 0),
                         *b = alloc(mapper, 100, CUSHIM_MAPPED_FLAG_SLAB);
    ck_ok(cushim_mapper_close(mapper));
    ck_is(cushim_mapped_alloc(mapper, 1, 0, &(struct cushim_mapped *){0}), CUSHIM_BADHANDLE);
    memset(host_of(a), 3, 100);
    memset(host_of(b), 4, 100);
    ck_assert_int_eq(device_byte(a, 99), 3);
    ck_ok(cushim_mapped_free(a));
    ck_assert_int_eq(fake()->n_instances, 1);
    ck_assert_int_eq(device_byte(b, 99), 4);
    ck_ok(cushim_mapped_free(b));
    check_nothing_left();
}

static void *free_it(void *mapped) {
    ck_ok(cushim_mapped_free(mapped));
    return NULL;
}

/* A free of a span, and of a piece of a slab, which does not go back to the driver. */
TEST(a_free_waits_for_the_work_of_the_context) {
    struct cushim_mapper *mapper = open_mapper(0);
    CUcontext context;
    CUstream stream;
    pthread_t thread;
    ck_cu(SIM(cuDevicePrimaryCtxRetain)(&context, 0));
    ck_cu(SIM(cuCtxSetCurrent)(context));
    ck_cu(SIM(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned flags = 0; flags <= CUSHIM_MAPPED_FLAG_SLAB; flags++) {
        struct cushim_mapped *mapped = alloc(mapper, 4096, flags);
        SIM(sim_hold)();
        ck_cu(SIM(cuMemsetD8Async)(device_of(mapped), 1, 4096, stream));
        pthread_create(&thread, NULL, free_it, mapped);
        usleep(50000);
        ck_assert_int_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
        ck_assert_int_eq(fake()->n_memories, 1);
        SIM(sim_release_hold)();
        pthread_join(thread, NULL);
    }
}

TEST(a_free_reports_the_fault_of_earlier_work_and_still_frees) {
    struct cushim_context *context;
    struct cushim_mapper *mapper;
    ck_ok(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context));
    ck_ok(cushim_mapper_open(context, 0, &mapper));
    struct cushim_mapped *mapped = alloc(mapper, 100, 0);
    SIM(sim_fault)(CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_is(cushim_mapped_free(mapped), CUSHIM_FAULT);
    ck_said("cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS");
    ck_is(cushim_mapped_free(mapped), CUSHIM_BADHANDLE);
    ck_assert_int_eq(fake()->n_memories, 0);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    ck_ok(cushim_mapper_close(mapper));
}

TEST(a_capture_stays_valid_through_an_alloc_and_refuses_the_free) {
    struct cushim_mapper *mapper;
    struct cushim_mapped *mapped;
    struct cushim_context *context;
    CUstream stream;
    CUgraph graph;
    ck_ok(cushim_context_primary(0, &context));
    ck_ok(cushim_context_push(context));
    ck_ok(cushim_mapper_open(context, 0, &mapper));
    ck_cu(SIM(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    ck_ok(cushim_context_capture_enter(context));
    ck_cu(SIM(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    mapped = alloc(mapper, 100, 0);
    ck_is(cushim_mapped_free(mapped), CUSHIM_CAPTURE);
    ck_assert_ptr_nonnull(host_of(mapped));
    ck_cu(SIM(cuMemsetD8Async)(device_of(mapped), 1, 1, stream));
    ck_cu(SIM(cuStreamEndCapture)(stream, &graph));
    ck_ok(cushim_context_capture_leave(context));
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(memory_of_a_dead_context_is_refused_and_freed) {
    struct cushim_context *context;
    struct cushim_mapper *mapper;
    cushim_devptr at;
    ck_ok(cushim_context_create(0, 0, &context));
    ck_ok(cushim_mapper_open(context, 0, &mapper));
    struct cushim_mapped *a = alloc(mapper, 100, 0), *b = alloc(mapper, 1, CUSHIM_MAPPED_FLAG_SLAB);
    ck_ok(cushim_context_destroy(context));
    ck_is(cushim_mapped_device(a, &at), CUSHIM_DEADCONTEXT);
    ck_is(cushim_mapped_flush(b, 0, 1), CUSHIM_DEADCONTEXT);
    ck_is(cushim_mapped_alloc(mapper, 1, 0, &(struct cushim_mapped *){0}), CUSHIM_DEADCONTEXT);
    ck_ok(cushim_mapped_free(a));
    ck_ok(cushim_mapped_free(b));
    ck_is(cushim_mapped_free(b), CUSHIM_BADHANDLE);
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(a_late_free_spares_the_block_that_has_its_address_now) {
    struct cushim_context *context;
    struct cushim_mapper *old, *mapper = open_mapper(0);
    ck_ok(cushim_context_create(0, 0, &context));
    ck_ok(cushim_mapper_open(context, 0, &old));
    struct cushim_mapped *late = alloc(old, 4096, 0);
    CUdeviceptr at = device_of(late);
    ck_ok(cushim_context_destroy(context));
    struct cushim_mapped *now = alloc(mapper, 4096, 0);
    ck_assert_uint_eq(device_of(now), at);
    ck_ok(cushim_mapped_free(late));
    struct cushim_address_map_row row;
    ck_assert(cushim_address_map_find(at, &row));
    ck_assert_ptr_eq(row.owner->handle, now);
    cushim_address_map_drop(&row);
    ck_ok(cushim_mapped_free(now));
    ck_ok(cushim_mapper_close(old));
    ck_ok(cushim_mapper_close(mapper));
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    check_nothing_left();
}

TEST(any_current_context_works_and_stays_current) {
    struct cushim_mapper *mapper = open_mapper(0);
    CUcontext other, primary;
    ck_assert_uint_eq(SIM(sim_calls)("cuDevicePrimaryCtxRetain"), 0);
    ck_cu(SIM(cuDevicePrimaryCtxRetain)(&other, 1));
    ck_cu(SIM(cuCtxSetCurrent)(other));
    struct cushim_mapped *mapped = alloc(mapper, 100, 0);
    ck_assert_ptr_eq(sim_current(), other);
    ck_cu(SIM(cuDevicePrimaryCtxRetain)(&primary, 0));
    CUcontext owner = NULL;
    ck_cu(SIM(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device_of(mapped)));
    ck_assert_ptr_eq(owner, primary);
    ck_cu(SIM(cuCtxSetCurrent)(NULL));
    ck_ok(cushim_mapped_free(mapped));
    ck_assert_ptr_null(sim_current());
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(an_exported_descriptor_maps_the_same_bytes) {
    struct cushim_mapper *mapper = open_mapper(0);
    struct cushim_mapped *mapped = alloc(mapper, 4096, 0), *piece;
    int fd = 0;
    ck_ok(cushim_mapped_export(mapped, &fd));
    ck_assert_int_ge(fd, 0);
    host_of(mapped)[17] = 42;
    char *pages = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_int_eq(pages[17], 42);
    close(fd);
    piece = alloc(mapper, 4096, CUSHIM_MAPPED_FLAG_SLAB);
    ck_is(cushim_mapped_export(piece, &fd), CUSHIM_STATE);
    ck_assert_int_eq(fd, -1);
    ck_is(cushim_mapped_export(mapped, NULL), CUSHIM_INVALID);
    ck_ok(cushim_mapped_free(piece));
    ck_ok(cushim_mapped_free(mapped));
    ck_ok(cushim_mapper_close(mapper));
    check_nothing_left();
}

TEST(without_the_extension_there_is_no_export) {
    for (int i = 0; i < 2; i++) {
        int fd;
        fake()->has_dma_buf = i;
        fake()->is_dma_buf_alone = 1;
        struct cushim_mapper *mapper = open_mapper(0);
        struct cushim_mapped *mapped = alloc(mapper, 4096, 0);
        ck_is(cushim_mapped_export(mapped, &fd), CUSHIM_NOTSUPPORTED);
        ck_said("VK_EXT_external_memory_dma_buf");
        ck_ok(cushim_mapped_free(mapped));
        ck_ok(cushim_mapper_close(mapper));
    }
    check_nothing_left();
}

static int count_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Uses every function, so that each call in it can fail. */
static enum cushim_status use_all(struct cushim_mapper *mapper, unsigned flags) {
    struct cushim_mapped *mapped;
    enum cushim_status status = cushim_mapped_alloc(mapper, 1000, flags, &mapped);
    if (status != CUSHIM_OK) {
        ck_assert_ptr_null(mapped);
        return status;
    }
    status = cushim_mapped_flush(mapped, 0, 1000);
    enum cushim_status freed = cushim_mapped_free(mapped);
    return status != CUSHIM_OK ? status : freed;
}

static void check_clean(int n_descriptors) {
    ck_assert_int_eq(count_descriptors(), n_descriptors);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    check_nothing_left();
}

TEST(whichever_vulkan_call_fails_nothing_is_left_behind) {
    struct fake_vulkan *vulkan = fake();
    struct cushim_mapper *mapper = open_mapper(0);
    use_all(mapper, 0); /* the driver is loaded, and the primary context exists */
    ck_ok(cushim_mapper_close(mapper));
    int n_descriptors = count_descriptors();
    for (unsigned long n = 1;; n++) {
        vulkan->has_failed = 0;
        vulkan->fail_at = n;
        vulkan->fail_result = VK_ERROR_OUT_OF_HOST_MEMORY;
        enum cushim_status status =
            cushim_mapper_open_device(0, CUSHIM_MAPPER_FLAG_NON_COHERENT, &mapper);
        if (status == CUSHIM_OK) {
            status = use_all(mapper, n % 2 ? CUSHIM_MAPPED_FLAG_SLAB : 0);
            ck_ok(cushim_mapper_close(mapper));
        }
        check_clean(n_descriptors);
        if (!vulkan->has_failed) {
            ck_is(status, CUSHIM_OK);
            ck_assert_uint_ge(n, 10);
            break;
        }
        ck_is(status, CUSHIM_NOMEM);
        ck_said("(result=VK_ERROR_OUT_OF_HOST_MEMORY");
    }
}

/* The n-th driver call of one use fails; memory that the driver refuses to free stays allocated. */
static bool fail_driver_call(unsigned long n, unsigned flags) {
    struct cushim_mapper *mapper = open_mapper(0);
    int n_descriptors = count_descriptors();
    size_t n_live = SIM(sim_live_allocations)();
    SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
    enum cushim_status status = use_all(mapper, flags);
    bool has_failed = SIM(sim_has_failed)();
    SIM(sim_fail_at)(0, CUDA_SUCCESS);
    ck_ok(cushim_mapper_close(mapper));
    if (status != CUSHIM_OK || !has_failed) {
        ck_assert_int_eq(count_descriptors(), n_descriptors);
        ck_assert_uint_eq(SIM(sim_live_allocations)(), n_live);
    }
    ck_assert(status == CUSHIM_OK || has_failed);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    ck_assert_int_eq(fake()->n_memories, 0);
    ck_assert_int_eq(fake()->n_instances, 0);
    return has_failed;
}

TEST(whichever_driver_call_fails_nothing_is_left_behind) {
    for (unsigned flags = 0; flags <= CUSHIM_MAPPED_FLAG_SLAB; flags++) {
        struct cushim_mapper *mapper = open_mapper(0);
        ck_ok(use_all(mapper, 0)); /* the driver is loaded, and the primary context exists */
        ck_ok(cushim_mapper_close(mapper));
        unsigned long n = 1;
        while (fail_driver_call(n, flags))
            n++;
        ck_assert_uint_ge(n, 6);
    }
    ck_assert_uint_eq(fake()->n_misuses, 0);
}

SUITE() {
    return tests_run("mapped");
}
