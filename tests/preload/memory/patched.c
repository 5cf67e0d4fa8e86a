/*
 * A library that follows allocations by a jump at the beginning of the driver's functions, as UCX
 * does, sees every block that it sees without cushim (interposition.md C8): those that the
 * runtime's entry points serve, those that come from a pool, and all frees.
 */
#include "tests/preload/fixture/fixture.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RT_OK(call) ck_assert_int_eq((call), cudaSuccess)

enum { N_BLOCKS = 40, N_FNS = 5, MOST_EVENTS = 4096, AREA_BYTES = 4096, COPY_BYTES = 64 };
enum { MOVE_BYTES = 5, MOVE = 0xb8, NEAR_BYTES = 5, FAR_BYTES = 12 };

/* ---- events ---- */

struct event {
    const char *name;
    uint64_t address;
    size_t n_bytes; /* 0: a free */
};

static struct event events[MOST_EVENTS];
static unsigned n_events;

static void tell(const char *name, uint64_t address, size_t n_bytes) {
    if (n_events < MOST_EVENTS)
        events[n_events++] = (struct event){name, address, n_bytes};
}

/* Exactly this event came since the last look. */
static void check_told(const char *name, const void *address, size_t n_bytes) {
    ck_assert_uint_eq(n_events, 1);
    ck_assert_str_eq(events[0].name, name);
    ck_assert_uint_eq(events[0].address, (uintptr_t)address);
    ck_assert_uint_eq(events[0].n_bytes, n_bytes);
    n_events = 0;
}

/* ---- hooks; `originals` are copies of the first instructions, which jump back to the rest ---- */

static void *originals[N_FNS];

static CUresult call_original(unsigned i, void *a, size_t b, unsigned c) {
    CUresult (*original)(void *, size_t, unsigned);
    memcpy(&original, &originals[i], sizeof original);
    return original(a, b, c);
}

static CUresult told_alloc(unsigned i, const char *name, void *address, size_t n_bytes,
                           unsigned flags) {
    CUresult answer = call_original(i, address, n_bytes, flags);
    uint64_t block;
    memcpy(&block, address, sizeof block);
    if (answer == CUDA_SUCCESS)
        tell(name, block, n_bytes);
    return answer;
}

static CUresult told_free(unsigned i, const char *name, uint64_t address) {
    tell(name, address, 0);
    return call_original(i, (void *)(uintptr_t)address, 0, 0);
}

static CUresult hook_alloc(void *address, size_t n_bytes) {
    return told_alloc(0, "cuMemAlloc_v2", address, n_bytes, 0);
}

static CUresult hook_managed(void *address, size_t n_bytes, unsigned flags) {
    return told_alloc(1, "cuMemAllocManaged", address, n_bytes, flags);
}

static CUresult hook_pinned(void *address, size_t n_bytes, unsigned flags) {
    return told_alloc(2, "cuMemHostAlloc", address, n_bytes, flags);
}

static CUresult hook_free(uint64_t address) {
    return told_free(3, "cuMemFree_v2", address);
}

static CUresult hook_free_host(uint64_t address) {
    return told_free(4, "cuMemFreeHost", address);
}

#define HOOK(fn) (void (*)(void)) fn
static const struct {
    const char *name;
    void (*hook)(void);
} fns[N_FNS] = {{"cuMemAlloc_v2", HOOK(hook_alloc)},
                {"cuMemAllocManaged", HOOK(hook_managed)},
                {"cuMemHostAlloc", HOOK(hook_pinned)},
                {"cuMemFree_v2", HOOK(hook_free)},
                {"cuMemFreeHost", HOOK(hook_free_host)}};

/* ---- the patch ---- */

static unsigned char kept[N_FNS][FAR_BYTES];

/* `mov $to, %rax; jmp *%rax` */
static void write_far(unsigned char *at, const void *to) {
    uint64_t target = (uintptr_t)to;
    memcpy(at, (unsigned char[]){0x48, 0xb8}, 2);
    memcpy(at + 2, &target, sizeof target);
    memcpy(at + 10, (unsigned char[]){0xff, 0xe0}, 2);
}

/* A page that a jump of 32 bits reaches from an address, below or above it. */
static unsigned char *map_near(const unsigned char *address) {
    const uintptr_t step = 16 * AREA_BYTES, reach = (uintptr_t)1 << 30;
    uintptr_t at = (uintptr_t)address & ~(uintptr_t)(AREA_BYTES - 1);
    for (uintptr_t distance = step; distance < reach; distance += step) {
        for (unsigned i = 0; i < 2; i++) {
            void *wanted = (void *)(i ? at + distance : at - distance);
            void *area = mmap(wanted, AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (area == wanted)
                return area;
            if (area != MAP_FAILED)
                munmap(area, AREA_BYTES);
        }
    }
    return NULL;
}

static void write_code(unsigned char *at, const void *code, size_t n_bytes) {
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)(AREA_BYTES - 1);
    size_t span = (uintptr_t)at + n_bytes - first;
    ck_assert_int_eq(mprotect((void *)first, span, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    memcpy(at, code, n_bytes);
    ck_assert_int_eq(mprotect((void *)first, span, PROT_READ | PROT_EXEC), 0);
}

static unsigned char *place_of(unsigned i) {
    void *place = dlsym(RTLD_DEFAULT, fns[i].name);
    ck_assert_ptr_nonnull(place);
    return place;
}

static void patch_one(unsigned i, size_t n_bytes, unsigned char *area) {
    unsigned char *place = place_of(i), *copy = area, patch[FAR_BYTES];
    void *hook;
    size_t n_copied = 0;
    memcpy(&hook, &fns[i].hook, sizeof hook);
    memcpy(kept[i], place, FAR_BYTES);
    for (; n_copied < n_bytes; n_copied += MOVE_BYTES) {
        ck_assert_msg(place[n_copied] == MOVE, "%s begins with what cannot be copied", fns[i].name);
        memcpy(copy + n_copied, place + n_copied, MOVE_BYTES);
    }
    write_far(copy + n_copied, place + n_copied);
    originals[i] = copy;
    if (n_bytes == FAR_BYTES) {
        write_far(patch, hook);
    } else {
        unsigned char *step = area + COPY_BYTES;
        int32_t distance = (int32_t)(step - (place + NEAR_BYTES));
        write_far(step, hook);
        patch[0] = 0xe9;
        memcpy(patch + 1, &distance, sizeof distance);
    }
    write_code(place, patch, n_bytes);
}

static void patch_all(size_t n_bytes) {
    for (unsigned i = 0; i < N_FNS; i++) {
        unsigned char *area = map_near(place_of(i));
        ck_assert_ptr_nonnull(area);
        patch_one(i, n_bytes, area);
    }
}

static void restore_all(void) {
    for (unsigned i = 0; i < N_FNS; i++)
        write_code(place_of(i), kept[i], FAR_BYTES);
}

/* ---- tests, for either jump ---- */

static const size_t jumps[] = {NEAR_BYTES, FAR_BYTES};
enum { N_JUMPS = sizeof jumps / sizeof *jumps };

static void *obtain(size_t n_bytes) {
    void *block = NULL;
    RT_OK(cudaMalloc(&block, n_bytes));
    return block;
}

/* Let the thread's cache have blocks from here on. */
static void warm(void) {
    void *blocks[N_BLOCKS];
    for (unsigned i = 0; i < N_BLOCKS; i++)
        blocks[i] = obtain(4096);
    for (unsigned i = 0; i < N_BLOCKS; i++)
        RT_OK(cudaFree(blocks[i]));
}

TEST(every_block_of_the_runtime_is_told_of, .n = N_JUMPS) {
    void *blocks[N_BLOCKS];
    warm();
    patch_all(jumps[_i]);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            size_t n_bytes = i % 2 ? 4096 : 1000 + (size_t)i * 70000;
            blocks[i] = obtain(n_bytes);
            check_told("cuMemAlloc_v2", blocks[i], n_bytes);
        }
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            RT_OK(cudaFree(blocks[i]));
            check_told("cuMemFree_v2", blocks[i], 0);
        }
    }
}

TEST(a_block_from_before_is_told_of_when_it_goes, .n = N_JUMPS) {
    void *block = obtain(4096), *large = obtain(3 * MIB);
    patch_all(jumps[_i]);
    RT_OK(cudaFree(block));
    check_told("cuMemFree_v2", block, 0);
    RT_OK(cudaFree(large));
    check_told("cuMemFree_v2", large, 0);
}

TEST(the_drivers_own_calls_are_told_of, .n = N_JUMPS) {
    CUdeviceptr block;
    warm();
    patch_all(jumps[_i]);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        OK(cuMemAlloc(&block, 4096));
        check_told("cuMemAlloc_v2", (void *)(uintptr_t)block, 4096);
        OK(cuMemFree(block));
        check_told("cuMemFree_v2", (void *)(uintptr_t)block, 0);
    }
}

TEST(managed_and_pinned_memory_is_told_of, .n = N_JUMPS) {
    void *block;
    RT_OK(cudaMallocManaged(&block, 4096, cudaMemAttachGlobal));
    RT_OK(cudaFree(block));
    RT_OK(cudaHostAlloc(&block, 4096, cudaHostAllocPortable));
    RT_OK(cudaFreeHost(block));
    patch_all(jumps[_i]);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        RT_OK(cudaMallocManaged(&block, 4096, cudaMemAttachGlobal));
        check_told("cuMemAllocManaged", block, 4096);
        RT_OK(cudaFree(block));
        check_told("cuMemFree_v2", block, 0);
        RT_OK(cudaHostAlloc(&block, 4096, cudaHostAllocPortable));
        check_told("cuMemHostAlloc", block, 4096);
        RT_OK(cudaFreeHost(block));
        check_told("cuMemFreeHost", block, 0);
    }
}

TEST(without_the_patch_all_is_as_before, .n = N_JUMPS) {
    warm();
    patch_all(jumps[_i]);
    RT_OK(cudaFree(obtain(4096)));
    ck_assert_uint_eq(n_events, 2);
    restore_all();
    n_events = 0;
    sim_calls_reset();
    for (unsigned i = 0; i < N_BLOCKS; i++)
        RT_OK(cudaFree(obtain(4096)));
    ck_assert_uint_eq(n_events, 0);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2") + sim_calls("cuMemFree_v2"), 0);
}

int main(void) {
    return fixture_run("patched");
}
