/* Device memory: addresses, refusals, and the work that frees wait for. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

TEST(a_small_block_shares_a_page_and_a_large_one_does_not) {
    fixture_context();
    CUdeviceptr a = fixture_alloc(1), b = fixture_alloc(1000), c = fixture_alloc(MIB),
                d = fixture_alloc(MIB + 1);
    ck_assert_uint_eq(a % (2 * MIB), 0);
    ck_assert_uint_eq(b, a + 512);
    ck_assert_uint_eq(c, b + 1024);
    ck_assert_uint_eq(d % (2 * MIB), 0);
    ck_assert_uint_ne(d, a);
}

TEST(free_memory_is_counted_in_pages) {
    size_t n_free, n_total, n_then;
    fixture_context();
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert_uint_eq(n_total, (size_t)1 << 30);
    ck_assert_uint_eq(n_free, n_total);
    CUdeviceptr a = fixture_alloc(1), b = fixture_alloc(2 * MIB + 1);
    ck_cuda(cuMemGetInfo(&n_then, &n_total));
    ck_assert_uint_eq(n_free - n_then, 6 * MIB);
    ck_cuda(cuMemFree(a));
    ck_cuda(cuMemFree(b));
    ck_cuda(cuMemGetInfo(&n_then, &n_total));
    ck_assert_uint_eq(n_then, n_free);
    ck_assert_uint_eq(sim_live_allocations(), 0);
}

TEST(the_driver_gives_back_whole_pages_and_reports_them) {
    void *base;
    size_t n_bytes;
    fixture_context();
    CUdeviceptr a = fixture_alloc(1), b = fixture_alloc(1000), c = fixture_alloc(2 * MIB + 1);
    ck_assert_uint_eq(sim_used_bytes(0), 6 * MIB);
    ck_assert_uint_eq(sim_used_bytes(99), 0);
    ck_assert(sim_allocation_at((void *)b, &base, &n_bytes));
    ck_assert_uint_eq((CUdeviceptr)base, a);
    ck_assert_uint_eq(n_bytes, 2 * MIB);
    ck_assert(sim_allocation_at((void *)(c + MIB), &base, &n_bytes));
    ck_assert_uint_eq((CUdeviceptr)base, c);
    ck_assert_uint_eq(n_bytes, 4 * MIB);
    ck_assert(!sim_allocation_at((void *)(c + 4 * MIB), &base, &n_bytes));
    ck_cuda(cuMemFree(b));
    ck_assert_uint_eq(sim_used_bytes(0), 6 * MIB);
    ck_cuda(cuMemFree(a));
    ck_assert_uint_eq(sim_used_bytes(0), 4 * MIB);
}

TEST(memory_runs_out_and_comes_back) {
    CUdeviceptr blocks[512], more;
    fixture_context();
    for (int i = 0; i < 512; i++)
        blocks[i] = fixture_alloc(MIB + MIB / 10);
    ck_cuda_is(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    ck_cuda(cuMemFree(blocks[100]));
    ck_cuda(cuMemAlloc(&more, 2 * MIB));
    ck_assert_uint_eq(more, blocks[100]);
}

TEST(invalid_sizes_and_addresses_are_refused) {
    CUdeviceptr a;
    fixture_context();
    ck_cuda_is(cuMemAlloc(&a, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemAlloc(&a, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    ck_cuda(cuMemFree(0));
    a = fixture_alloc(4096);
    ck_cuda_is(cuMemFree(a + 512), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemFree(a));
    ck_cuda_is(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemFree((CUdeviceptr)(uintptr_t)&a), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_range_is_reported_with_its_requested_size) {
    CUdeviceptr base;
    size_t n_bytes;
    fixture_context();
    CUdeviceptr a = fixture_alloc(1000);
    ck_cuda(cuMemGetAddressRange(&base, &n_bytes, a + 999));
    ck_assert_uint_eq(base, a);
    ck_assert_uint_eq(n_bytes, 1000);
    ck_cuda_is(cuMemGetAddressRange(&base, &n_bytes, a + 1000), CUDA_ERROR_NOT_FOUND);
}

TEST(a_fresh_large_block_is_zero) {
    fixture_context();
    for (int round = 0; round < 2; round++) {
        CUdeviceptr a = fixture_alloc(3 * MIB);
        unsigned char *bytes = (unsigned char *)(uintptr_t)a;
        ck_assert_uint_eq(bytes[0] | bytes[MIB] | bytes[3 * MIB - 1], 0);
        memset(bytes, 1, 3 * MIB);
        ck_cuda(cuMemFree(a));
    }
}

TEST(a_pitch_is_a_multiple_of_512) {
    CUdeviceptr a;
    size_t pitch;
    fixture_context();
    ck_cuda(cuMemAllocPitch(&a, &pitch, 700, 10, 4));
    ck_assert_uint_eq(pitch, 1024);
    ck_cuda_is(cuMemAllocPitch(&a, &pitch, 700, 10, 3), CUDA_ERROR_INVALID_VALUE);
}

static CUresult free_it(void *address) {
    return cuMemFree(*(CUdeviceptr *)address);
}

TEST(a_free_waits_for_work_on_every_stream_and_an_allocation_does_not) {
    const unsigned kinds[] = {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING};
    fixture_context();
    for (int i = 0; i < 3; i++) {
        atomic_int flag = 0;
        CUdeviceptr a = fixture_alloc(4096), b;
        fixture_spin(i == 2 ? NULL : fixture_stream(kinds[i]), &flag);
        struct fixture_thread *thread = fixture_run(free_it, &a);
        ck_assert(fixture_is_waiting(thread));
        ck_cuda(cuMemAlloc(&b, 4096));
        ck_assert_uint_ne(a, b);
        atomic_store(&flag, 1);
        ck_cuda(fixture_join(thread));
        ck_cuda(cuMemFree(b));
    }
}

static CUresult free_pinned(void *address) {
    return cuMemFreeHost(*(void **)address);
}

TEST(frees_of_pinned_and_managed_memory_wait_too) {
    atomic_int flag = 0;
    void *pinned;
    CUdeviceptr managed;
    fixture_context();
    ck_cuda(cuMemHostAlloc(&pinned, 100, 0));
    ck_cuda(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    fixture_spin(fixture_stream(CU_STREAM_NON_BLOCKING), &flag);
    struct fixture_thread *a = fixture_run(free_pinned, &pinned),
                          *b = fixture_run(free_it, &managed);
    ck_assert(fixture_is_waiting(a));
    ck_assert(fixture_is_waiting(b));
    atomic_store(&flag, 1);
    ck_cuda(fixture_join(a));
    ck_cuda(fixture_join(b));
}

TEST(work_submitted_after_the_free_is_not_waited_for) {
    atomic_int first = 0, second = 0;
    fixture_context();
    CUstream one = fixture_stream(CU_STREAM_NON_BLOCKING),
             two = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = fixture_alloc(1);
    fixture_spin(one, &first);
    struct fixture_thread *thread = fixture_run(free_it, &a);
    ck_assert(fixture_is_waiting(thread));
    fixture_spin(two, &second);
    atomic_store(&first, 1);
    ck_cuda(fixture_join(thread));
    ck_cuda_is(cuStreamQuery(two), CUDA_ERROR_NOT_READY);
    atomic_store(&second, 1);
    ck_cuda(cuCtxSynchronize());
}

/* Whether the thread has looked its block up: the call counts once it has the lock, and another
 * call gets the lock when it waits. */
static void await_frees(unsigned long n) {
    const struct timespec pause = {0, 200000};
    size_t n_free, n_total;
    while (sim_calls("cuMemFree_v2") < n)
        nanosleep(&pause, NULL);
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
}

TEST(of_two_waiting_frees_the_later_spares_a_new_block_at_the_address) {
    atomic_int first = 0, second = 0;
    fixture_context();
    CUstream one = fixture_stream(CU_STREAM_NON_BLOCKING),
             two = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = fixture_alloc(3 * MIB);
    sim_calls_reset();
    fixture_spin(one, &first);
    struct fixture_thread *early = fixture_run(free_it, &a);
    await_frees(1);
    fixture_spin(two, &second);
    struct fixture_thread *late = fixture_run(free_it, &a);
    await_frees(2);
    atomic_store(&first, 1);
    ck_cuda(fixture_join(early));
    CUdeviceptr b = fixture_alloc(3 * MIB);
    ck_assert_uint_eq(a, b);
    atomic_store(&second, 1);
    ck_cuda_is(fixture_join(late), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemFree(b));
}

TEST(stream_ordered_memory_comes_back_when_its_free_runs) {
    atomic_int flag = 0;
    CUdeviceptr a, b, c;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuMemAllocAsync(&a, 2 * MIB, stream));
    fixture_spin(stream, &flag);
    ck_cuda(cuMemFreeAsync(a, stream));
    ck_cuda_is(cuMemFreeAsync(a, stream), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemAllocAsync(&b, 2 * MIB, stream));
    ck_assert_uint_ne(a, b);
    atomic_store(&flag, 1);
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(cuMemAllocAsync(&c, 2 * MIB, stream));
    ck_assert_uint_eq(a, c);
    ck_cuda(cuMemFree(b));
    ck_cuda(cuMemFreeAsync(fixture_alloc(100), stream));
}

TEST(pinned_memory_is_zero_and_known_by_its_address) {
    void *pinned;
    CUdeviceptr device;
    unsigned flags;
    int local;
    fixture_context();
    ck_cuda(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(((char *)pinned)[i], 0);
    ck_cuda(cuMemHostGetDevicePointer(&device, pinned, 0));
    ck_assert_uint_eq(device, (CUdeviceptr)(uintptr_t)pinned);
    ck_cuda(cuMemHostGetFlags(&flags, pinned));
    ck_assert_uint_eq(flags & CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
    ck_cuda(cuMemFreeHost(pinned));
    ck_cuda_is(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemHostRegister(&local, sizeof local, 0));
    ck_cuda_is(cuMemHostRegister(&local, sizeof local, 0),
               CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ck_cuda(cuMemHostUnregister(&local));
    ck_cuda_is(cuMemHostUnregister(&local), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

SUITE() {
    return tests_run("sim memory");
}
