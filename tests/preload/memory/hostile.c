/*
 * Use that a pool is not made for but must survive: contexts that end with all their blocks, a
 * million blocks at once, nonsensical sizes and pointers, a device that another process needs next.
 */
#include "tests/preload/fixture/fixture.h"

/* Spins until the word at an address of the host is set. */
SIM_KERNEL(spin, unsigned *) {
    launch->turn->again = !__atomic_load_n(SIM_ARG(unsigned *, 0), __ATOMIC_ACQUIRE);
}

static unsigned is_open;

static void launch_spin(CUstream stream) {
    CUfunction function;
    unsigned *flag = &is_open;
    void *args[] = {&flag};
    __atomic_store_n(&is_open, 0, __ATOMIC_RELEASE);
    OK(sim_function_by_name(&function, "spin"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void open_spin(void) {
    __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
}

static void check_gone(CUdeviceptr block) {
    unsigned type;
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
}

static void open_later(struct fixture_thread *thread) {
    while (sim_calls("cuCtxDestroy_v2") + sim_calls("cuDevicePrimaryCtxReset_v2") == 0)
        ;
    open_spin();
    thread->answer = CUDA_SUCCESS;
}

/* Blocks of every size: live ones, blocks that were freed in stream order behind a kernel, and
 * blocks kept for reuse. */
static void end_under_all(bool is_primary) {
    static const size_t sizes[] = {100, 70000, 3 * MIB, 40 * MIB};
    enum { N_SIZES = sizeof sizes / sizeof *sizes };
    struct fixture_thread opener = {0};
    CUcontext context = fixture_use_device(0);
    CUdeviceptr live[N_SIZES], pending[N_SIZES], cached[N_SIZES];
    if (!is_primary)
        OK(cuCtxCreate(&context, NULL, 0, 0));
    CUstream stream = fixture_stream();
    for (int i = 0; i < N_SIZES; i++) {
        live[i] = fixture_alloc(sizes[i]);
        pending[i] = fixture_alloc(sizes[i]);
        cached[i] = fixture_alloc(sizes[i]);
    }
    for (int i = 0; i < N_SIZES; i++)
        OK(cuMemFree(cached[i]));
    launch_spin(stream);
    for (int i = 0; i < N_SIZES; i++)
        OK(cuMemFreeAsync(pending[i], stream));
    sim_calls_reset();
    fixture_start(&opener, open_later);
    OK(is_primary ? cuDevicePrimaryCtxReset(0) : cuCtxDestroy(context));
    fixture_join(&opener);
    ck_assert_uint_eq(sim_live_bytes(), 0);
    fixture_use_device(0);
    for (int i = 0; i < N_SIZES; i++) {
        check_gone(live[i]);
        check_gone(pending[i]);
        check_gone(cached[i]);
    }
    for (int i = 0; i < N_SIZES; i++) {
        CUdeviceptr block = fixture_alloc(sizes[i]);
        fixture_fill(block, 7, sizes[i]);
        ck_assert(fixture_is_filled(block, 7, sizes[i]));
        OK(cuMemFree(block));
    }
}

TEST(a_context_ends_with_live_pending_and_kept_blocks) {
    end_under_all(false);
}

TEST(a_reset_takes_live_pending_and_kept_blocks) {
    for (int i = 0; i < 3; i++)
        end_under_all(true);
}

static int by_address(const void *a, const void *b) {
    CUdeviceptr x = *(const CUdeviceptr *)a, y = *(const CUdeviceptr *)b;
    return (x > y) - (x < y);
}

/* Each block costs the same in every way: one has the million, the others a tenth. */
/* Without cushim the software driver takes a minute for them. */
TEST_IF(fixture_is_preloaded(), a_million_blocks_live_at_once) {
    enum { ALIGN_BYTES = 512 };
    const int n = getenv("TEST_FEWER_BLOCKS") ? 100000 : 1000000;
    CUdeviceptr *blocks = malloc((size_t)n * sizeof *blocks);
    size_t n_bytes = 0;
    fixture_use_device(0);
    ck_assert_ptr_nonnull(blocks);
    for (int i = 0; i < n; i++) {
        OK(cuMemAlloc(&blocks[i], (size_t)(i % 500) + 1));
        ck_assert_uint_eq(blocks[i] % ALIGN_BYTES, 0);
    }
    qsort(blocks, (size_t)n, sizeof *blocks, by_address);
    for (int i = 0; i + 1 < n; i++)
        ck_assert_uint_ge(blocks[i + 1] - blocks[i], ALIGN_BYTES);
    OK(cuMemGetAddressRange(NULL, &n_bytes, blocks[n / 2]));
    for (int i = 0; i < n; i++) /* neither in the order of allocation nor of addresses */
        OK(cuMemFree(blocks[(size_t)i * 7919 % (size_t)n]));
    free(blocks);
    OK(cuMemFree(fixture_alloc(100)));
}

static const size_t absurd[] = {
    SIZE_MAX,           SIZE_MAX - 1,       SIZE_MAX - 511,   SIZE_MAX - 2 * MIB + 1,
    SIZE_MAX - 2 * MIB, SIZE_MAX - 4 * MIB, SIZE_MAX / 2 + 1, SIZE_MAX / 2,
    (size_t)1 << 48,    (size_t)1 << 47,    (size_t)64 << 30};

static void ask_for(size_t n_bytes, CUdeviceptr block) {
    CUdeviceptr address = 0;
    void *host;
    size_t pitch;
    ANSWERS(cuMemAlloc(&address, n_bytes), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(address, 0);
    ck_assert_int_ne(cuMemAllocPitch(&address, &pitch, n_bytes, 2, 4), CUDA_SUCCESS);
    ck_assert_int_ne(cuMemAllocPitch(&address, &pitch, 4, n_bytes, 4), CUDA_SUCCESS);
    ck_assert_int_ne(cuMemAllocManaged(&address, n_bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    ck_assert_int_ne(cuMemHostAlloc(&host, n_bytes, 0), CUDA_SUCCESS);
    ANSWERS(cuMemcpyDtoH(&host, block, n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemsetD8(block, 1, n_bytes), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemsetD32(block, 1, n_bytes / 4 + 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(sizes_near_overflow_are_out_of_memory) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        ask_for(absurd[i], block);
    OK(cuMemFree(block));
    OK(cuMemFree(fixture_alloc(1000)));
}

static unsigned long long draw(unsigned long long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* An address beside a block, in its page, anywhere in the usual range, or anywhere. */
static CUdeviceptr draw_junk(unsigned long long *state, CUdeviceptr block) {
    unsigned long long word = draw(state);
    switch (word & 3) {
    case 0:
        return block + 1 + (word >> 8) % 700;
    case 1:
        return (block & ~(CUdeviceptr)(2 * MIB - 1)) + (word >> 8) % (2 * MIB);
    case 2:
        return word >> 17;
    default:
        return word;
    }
}

TEST(junk_for_pointers_is_refused_and_harms_nobody) {
    enum { N_BLOCKS = 64, N_ROUNDS = 20000, N_BYTES = 700 };
    CUdeviceptr blocks[N_BLOCKS];
    unsigned long long state = 88172645463325252ull;
    fixture_use_device(0);
    for (int i = 0; i < N_BLOCKS; i++) {
        blocks[i] = fixture_alloc(N_BYTES);
        fixture_fill(blocks[i], 0x5a, N_BYTES);
    }
    for (int i = 0; i < N_ROUNDS; i++) {
        unsigned type = 0;
        CUdeviceptr junk = draw_junk(&state, blocks[i % N_BLOCKS]);
        bool is_block = false;
        for (int k = 0; k < N_BLOCKS; k++)
            is_block = is_block || junk == blocks[k];
        if (is_block || junk == 0)
            continue;
        ANSWERS(cuMemFree(junk), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemsetD8(junk, 1, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, junk);
        if (i % 16 == 0)
            ANSWERS(cuMemFreeHost((void *)(uintptr_t)junk), CUDA_ERROR_INVALID_VALUE);
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        ck_assert(fixture_is_filled(blocks[i], 0x5a, N_BYTES));
        OK(cuMemFree(blocks[i]));
    }
}

/* Take a share of the device, in blocks of a size that segments hold or in one block, and free
 * it. */
static void use_and_free(unsigned pct, size_t block_bytes) {
    enum { MOST = 1300 };
    static CUdeviceptr blocks[MOST];
    size_t free_bytes, total_bytes;
    int n = 0;
    fixture_use_device(0);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    for (size_t n_bytes = 0; n_bytes + block_bytes <= total_bytes / 100 * pct && n < MOST;
         n_bytes += block_bytes)
        blocks[n++] = fixture_alloc(block_bytes);
    ck_assert_int_gt(n, 0);
    while (n)
        OK(cuMemFree(blocks[--n]));
}

static const size_t footprints[] = {512 * KIB, 3 * MIB, 8 * MIB, 20 * MIB, 40 * MIB, 600 * MIB};

TEST(after_a_free_a_kernel_that_never_ends_starves_no_allocation,
     .n = sizeof footprints / sizeof *footprints) {
    CUdeviceptr address;
    size_t free_bytes, total_bytes;
    use_and_free(60, footprints[_i]);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    CUstream stream = fixture_stream();
    launch_spin(stream);
    OK(cuMemAlloc(&address, total_bytes / 100 * 70)); /* a thread that waits for the kernel waits
                                                       * for ever */
    open_spin();
    OK(cuMemFree(address));
}

TEST(after_a_free_managed_memory_has_the_device, .n = sizeof footprints / sizeof *footprints) {
    CUdeviceptr address;
    size_t free_bytes, total_bytes;
    use_and_free(60, footprints[_i]);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    OK(cuMemAllocManaged(&address, total_bytes / 100 * 60, CU_MEM_ATTACH_GLOBAL));
    fixture_launch_write(address, 5, fixture_stream());
    OK(cuCtxSynchronize());
    OK(cuMemFree(address));
}

int main(void) {
    return fixture_run("hostile");
}
