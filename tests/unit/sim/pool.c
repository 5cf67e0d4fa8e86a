/*
 * A pool that another process imports.  The child is forked before CUDA is used and gets the pool's
 * descriptor from /proc.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
enum { N_BYTES = 5000 };

struct shown {
    pid_t pid;
    int fd;
    CUmemPoolPtrExportData data, of_another_pool, freed;
};

static CUmemoryPool make_pool(CUmemAllocationHandleType types) {
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = types,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    ck_cuda(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUdeviceptr take(CUmemoryPool pool) {
    CUdeviceptr block;
    ck_cuda(cuMemAllocFromPoolAsync(&block, N_BYTES, pool, NULL));
    return block;
}

static void *descriptor_of(const struct shown *shown) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)shown->pid, shown->fd);
    return (void *)(intptr_t)open(path, O_RDONLY);
}

static void import_all(int from, int to) {
    struct shown shown;
    CUmemoryPool pool;
    CUdeviceptr first, again, block;
    unsigned char byte = 0;
    ck_assert_int_eq(read(from, &shown, sizeof shown), sizeof shown);
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    void *descriptor = descriptor_of(&shown);
    ck_cuda(cuMemPoolImportFromShareableHandle(&pool, descriptor, FD, 0));
    ck_cuda(cuMemPoolImportPointer(&first, pool, &shown.data));
    ck_cuda(cuMemPoolImportPointer(&again, pool, &shown.data));
    ck_cuda(cuMemcpyDtoH(&byte, first + N_BYTES - 1, 1));
    ck_assert_uint_eq(byte, 7);
    ck_cuda(cuMemsetD8(again, 8, N_BYTES));
    ck_cuda(cuCtxSynchronize());
    ck_cuda_is(cuMemPoolImportPointer(&block, pool, &shown.of_another_pool),
               CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemPoolImportPointer(&block, pool, &shown.freed), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemAllocFromPoolAsync(&block, 100, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuIpcCloseMemHandle(first), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemFreeAsync(first, stream));
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda_is(cuMemcpyDtoH(&byte, first, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemPoolDestroy(pool));
    ck_cuda(cuMemFree(again));
    ck_assert_int_eq(write(to, "", 1), 1);
}

TEST(another_process_reads_and_writes_a_pool_s_memory) {
    struct shown shown = {.pid = getpid()};
    int there[2], back[2], status;
    unsigned char byte = 0;
    ck_assert(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0) {
        import_all(there[0], back[1]);
        _exit(0);
    }
    close(back[1]);
    fixture_context();
    CUmemoryPool pool = make_pool(FD), other = make_pool(FD);
    CUdeviceptr block = take(pool), freed = take(pool);
    ck_cuda(cuMemsetD8(block, 7, N_BYTES));
    ck_cuda(cuMemPoolExportToShareableHandle(&shown.fd, pool, FD, 0));
    ck_cuda(cuMemPoolExportPointer(&shown.data, block));
    ck_cuda(cuMemPoolExportPointer(&shown.freed, freed));
    ck_cuda(cuMemPoolExportPointer(&shown.of_another_pool, take(other)));
    ck_cuda(cuMemFree(freed));
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(write(there[1], &shown, sizeof shown), sizeof shown);
    ck_assert_int_eq(read(back[0], &byte, 1), 1);
    ck_cuda(cuMemcpyDtoH(&byte, block + N_BYTES - 1, 1));
    ck_assert_uint_eq(byte, 8);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_cuda(cuMemFree(block));
}

TEST(memory_that_cannot_be_exported_is_refused) {
    CUmemPoolPtrExportData data;
    CUmemoryPool imported;
    CUdeviceptr block;
    int fd;
    fixture_context();
    CUmemoryPool shared = make_pool(FD), plain = make_pool(CU_MEM_HANDLE_TYPE_NONE);
    ck_cuda_is(cuMemPoolExportToShareableHandle(&fd, plain, FD, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemPoolExportToShareableHandle(&fd, shared, FD, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemPoolExportToShareableHandle(NULL, shared, FD, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemPoolExportPointer(&data, take(plain)), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemPoolExportPointer(&data, fixture_alloc(100)), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemPoolExportPointer(&data, take(shared)));
    ck_cuda_is(cuMemPoolImportPointer(&block, shared, &data), CUDA_ERROR_INVALID_VALUE);
    void *not_a_pool = (void *)(intptr_t)open("/dev/null", O_RDONLY);
    ck_cuda_is(cuMemPoolImportFromShareableHandle(&imported, not_a_pool, FD, 0),
               CUDA_ERROR_INVALID_VALUE);
}

SUITE() {
    return tests_run("sim pool");
}
