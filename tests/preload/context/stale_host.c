/*
 * Host memory of the program at addresses of memory whose context went
 * (preload/entry/stale_address.h): its mapping is looked up once, although it fills no page of 64
 * KiB, and nothing else is thought to be in use.
 */
#include "tests/preload/fixture/fixture.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N_BLOCKS = 8, BLOCK_BYTES = 700000, N = 4096, N_COPIES = 100 };

static unsigned n_maps_read; /* how often anything read the list of the process's mappings */

/* It replaces the C library's, for the preload, too. */
static int open_counted(const char *path, int flags) {
    n_maps_read += strcmp(path, "/proc/self/maps") == 0;
    return (int)syscall(SYS_openat, -100 /* AT_FDCWD */, path, flags, 0600);
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...);
__attribute__((visibility("default"))) int open64(const char *path, int flags, ...);

int open(const char *path, int flags, ...) {
    return open_counted(path, flags);
}

int open64(const char *path, int flags, ...) {
    return open_counted(path, flags);
}

/* Are copies judged, so that the mappings must be read? */
static bool is_judged(void) {
    const char *copy = getenv("CUSHIM_COPY");
    return fixture_is_preloaded() && !(copy && strcmp(copy, "0") == 0);
}

/* A block whose context went, far from the one that is live now. */
static CUdeviceptr lose_blocks(CUdeviceptr *live) {
    CUdeviceptr blocks[N_BLOCKS];
    int i = 0;
    fixture_use_device(0);
    for (int k = 0; k < N_BLOCKS; k++)
        blocks[k] = fixture_alloc(BLOCK_BYTES);
    OK(cuDevicePrimaryCtxReset(0));
    fixture_use_device(0);
    *live = fixture_alloc(N);
    while (i < N_BLOCKS - 1 && blocks[i] / (2 * MIB) == *live / (2 * MIB))
        i++;
    return blocks[i];
}

/* Offsets from the beginning of a page of 64 KiB, and numbers of bytes. */
static const struct {
    size_t offset, n_bytes;
} mappings[] = {{0, 40 * KIB}, {4 * KIB, 4 * KIB}, {60 * KIB, 8 * KIB}, {4 * KIB, 500 * KIB}};
enum { N_MAPPINGS = sizeof mappings / sizeof mappings[0] };

TEST(copies_from_a_mapping_there_look_for_it_once, .n = N_MAPPINGS) {
    CUdeviceptr live, gone = lose_blocks(&live);
    uint64_t begin = (gone & ~(CUdeviceptr)(64 * KIB - 1)) + mappings[_i].offset;
    size_t n_bytes = mappings[_i].n_bytes;
    void *mapped = mmap((void *)begin, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ck_assert_uint_eq((uint64_t)mapped, begin);
    n_maps_read = 0;
    sim_calls_reset();
    for (size_t i = 0; i < N_COPIES;
         i++) /* the software device refuses it, because it does not know the memory */
        cuMemcpyHtoD(live, (void *)(begin + i * (n_bytes / N_COPIES)), 16);
    ck_assert_uint_eq(sim_calls("cuMemcpyHtoD_v2"), N_COPIES);
    ck_assert_uint_eq(n_maps_read, is_judged());
    ck_assert_uint_eq(sim_calls("cuPointerGetAttributes"), is_judged());
}

TEST(what_lies_beside_a_mapping_there_stays_nobodys, .n = N_MAPPINGS) {
    CUdeviceptr live, gone = lose_blocks(&live);
    uint64_t begin = (gone & ~(CUdeviceptr)(64 * KIB - 1)) + mappings[_i].offset;
    size_t n_bytes = mappings[_i].n_bytes;
    void *mapped = mmap((void *)begin, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ck_assert_uint_eq((uint64_t)mapped, begin);
    cuMemcpyHtoD(live, mapped, 16);
    sim_calls_reset();
    CUresult before = cuMemsetD8(begin - 1, 1, 1), behind = cuMemsetD8(begin + n_bytes, 1, 1);
    ck_assert_uint_eq(sim_calls("cuMemsetD8_v2"), is_judged() ? 0 : 2);
    if (is_judged() || !fixture_is_preloaded()) { /* otherwise the address may be in a segment of
                                                   * ours */
        ANSWERS(before, CUDA_ERROR_INVALID_VALUE);
        ANSWERS(behind, CUDA_ERROR_INVALID_VALUE);
    }
}

int main(void) {
    return fixture_run("stale_host");
}
