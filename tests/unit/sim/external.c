/* External memory of the software driver: host and device see the pages of a descriptor. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 10000 };

static int make_file(void) {
    int fd = memfd_create("external", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, FILE_BYTES), 0);
    return fd;
}

static CUresult import(CUexternalMemory *external, int fd, size_t n_bytes) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = n_bytes};
    return cuImportExternalMemory(external, &desc);
}

static CUresult map(CUdeviceptr *out, CUexternalMemory external, size_t offset, size_t n_bytes) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.offset = offset, .size = n_bytes};
    return cuExternalMemoryGetMappedBuffer(out, external, &desc);
}

TEST(a_buffer_shows_the_pages_of_the_descriptor) {
    CUexternalMemory external;
    CUdeviceptr a, b;
    char byte;
    fixture_context();
    int fd = make_file(), mine = dup(fd);
    char *host = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mine, 0);
    ck_cuda(import(&external, fd, FILE_BYTES));
    ck_cuda(map(&a, external, 0, FILE_BYTES));
    ck_cuda(map(&b, external, 5000, 100));
    host[5000] = 7;
    ck_cuda(cuMemcpyDtoH(&byte, b, 1));
    ck_assert_int_eq(byte, 7);
    ck_cuda(cuMemsetD8(a + 5099, 9, 1));
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(host[5099], 9);
    ck_cuda_is(cuMemcpyDtoH(&byte, b + 100, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuDestroyExternalMemory(external));
    ck_cuda(cuMemcpyDtoH(&byte, a + 5000, 1)); /* buffers are freed separately */
    ck_cuda(cuMemFree(a));
    ck_assert_int_eq(fcntl(fd, F_GETFD), 0 | FD_CLOEXEC);
    ck_cuda(cuMemFree(b));
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* the driver has owned it since the import */
    ck_assert_uint_eq(sim_live_allocations(), 0);
}

TEST(invalid_arguments_are_refused_and_leave_the_descriptor_open) {
    CUexternalMemory external;
    CUdeviceptr a;
    int fd = make_file();
    ck_cuda(cuInit(0));
    ck_cuda_is(import(&external, fd, 1), CUDA_ERROR_INVALID_CONTEXT);
    fixture_context();
    ck_cuda_is(import(&external, fd, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(import(&external, fd, FILE_BYTES + 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(import(&external, -1, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuImportExternalMemory(&external, NULL), CUDA_ERROR_INVALID_VALUE);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC other = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32, .handle.fd = fd, .size = 1};
    ck_cuda_is(cuImportExternalMemory(&external, &other), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
    ck_cuda(import(&external, fd, 5000));
    ck_cuda_is(map(&a, external, 1, 5000), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(map(&a, external, 5001, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(map(&a, (CUexternalMemory)&a, 0, 1), CUDA_ERROR_INVALID_HANDLE);
    ck_cuda(cuDestroyExternalMemory(external));
    ck_cuda_is(cuDestroyExternalMemory(external), CUDA_ERROR_INVALID_HANDLE);
    ck_cuda_is(map(&a, external, 0, 1), CUDA_ERROR_INVALID_HANDLE);
}

SUITE() {
    return tests_run("external");
}
