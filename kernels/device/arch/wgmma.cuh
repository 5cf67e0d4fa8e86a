/*
 * Products of matrices by a warpgroup, four warps side by side, D = A * B + D (only sm_90a).
 *
 * D is 64 x N, with a warp's 16 rows as in mma.cuh: d[4 j ..] are those of columns 8 j .. 8 j + 7.
 * A is 64 x 16, in registers with a warp's rows as in mma.cuh, or in shared memory.  B is 16 x N
 * in shared memory, a tile with a pitch and a step: column 8 j + i has its rows 0 .. 7 in the 16
 * bytes at 16 (step j + i), and rows 8 .. 15 in those one pitch, 16 pitch bytes, behind.  A tile of
 * A has its rows instead of B's columns.  Stores of threads to a tile are seen after fence_tiles()
 * in each of them and a barrier.
 *
 * Products run from end_products() on, and neither A nor D may be touched until wait_products();
 * the order is begin_products(), products, end_products().  Products are exact; their sum with D is
 * truncated, not rounded.  Source: PTX ISA, asynchronous warpgroup level matrix instructions.
 */
#ifndef CUSHIM_KERNELS_WGMMA_CUH
#define CUSHIM_KERNELS_WGMMA_CUH

#include "kernels/device/arch/mma.cuh"

/* Whether this compilation has them.  The compilation for the host reads kernels too. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(CUSHIM_EMULATED) || !defined(__CUDA_ARCH__)
#define CUSHIM_HAS_WGMMA
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CUSHIM_WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define CUSHIM_WGMMA_ASM(...)
#endif

/*
 * A barrier of N threads, whole warps, that come from different places of the code.  It is the form
 * that is not aligned, because bar.sync requires one place (PTX ISA, bar and barrier;
 * compute-sanitizer's synccheck checks it).  Some of the threads may arrive and go on.  Numbers are
 * 1 to 15.
 */
template <int N> DEVICE void meet_some(unsigned number) {
#ifdef CUSHIM_EMULATED
    emulated::meet_some(number, N, true);
#else
    CUSHIM_WGMMA_ASM("barrier.sync %0, %1;" ::"r"(number), "n"(N) : "memory");
#endif
}

template <int N> DEVICE void arrive_at_some(unsigned number) {
#ifdef CUSHIM_EMULATED
    emulated::meet_some(number, N, false);
#else
    CUSHIM_WGMMA_ASM("barrier.arrive %0, %1;" ::"r"(number), "n"(N) : "memory");
#endif
}

/*
 * A warpgroup gives registers back, or takes more, to have N per thread; all were launched with the
 * same number.
 */
template <int N> DEVICE void keep_registers() {
    CUSHIM_WGMMA_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> DEVICE void take_registers() {
    CUSHIM_WGMMA_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

DEVICE void fence_tiles() {
    CUSHIM_WGMMA_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

DEVICE void begin_products() {
    CUSHIM_WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void end_products() {
    CUSHIM_WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait for the products up to the last end_products() but one. */
DEVICE void wait_products_before() {
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

/*
 * A tile as the unit takes it: its address, and the steps to the next 8 rows (its pitch) and the
 * next 8 columns, in units of 16 bytes, 256 at most.
 */
template <int PITCH, int STEP = 8> DEVICE uint64_t tile_descriptor(const void *tile) {
    static_assert(PITCH <= 256 && STEP <= 256, "emulated these are bytes");
#ifdef CUSHIM_EMULATED
    return (uint64_t)(uintptr_t)tile | (uint64_t)(PITCH - 1) << 48 | (uint64_t)(STEP - 1) << 56;
#else
    /* in a cluster, the bits above the address in the block are the block's rank */
    uint32_t address = (uint32_t)__cvta_generic_to_shared(tile) & 0x3FFFF;
    return address >> 4 | (uint64_t)PITCH << 16 | (uint64_t)STEP << 32;
#endif
}

/*
 * The same, computed anew; the compiler would otherwise compute those of a loop before it and keep
 * them in registers.
 */
template <int PITCH, int STEP = 8> DEVICE uint64_t tile_descriptor_anew(const void *tile) {
    uint64_t descriptor = tile_descriptor<PITCH, STEP>(tile);
    CUSHIM_WGMMA_ASM("" : "+l"(descriptor));
    return descriptor;
}

/*
 * A number that is the same in all lanes of the warp, which the compiler cannot tell.  Values
 * computed from it are then kept once per warp.
 */
DEVICE int uniform(int number) {
    return __shfl_sync(0xFFFFFFFF, number, 0);
}

/* A number, computed anew likewise. */
DEVICE int anew(int number) {
    CUSHIM_WGMMA_ASM("" : "+r"(number));
    return number;
}

/* The tile that lies n_bytes further, a multiple of 16. */
DEVICE uint64_t tile_behind(uint64_t tile, int n_bytes) {
#ifdef CUSHIM_EMULATED
    return tile + n_bytes;
#else
    return tile + (n_bytes >> 4);
#endif
}

#ifdef CUSHIM_EMULATED
/* The two words that the lane has of a row or column of a tile. */
DEVICE void words_of_tile(uint32_t *words, uint64_t tile, int column, bool is_transposed = false) {
    int pitch = (int)(tile >> 48 & 0xFF) + 1, step = (int)(tile >> 56) + 1, t = threadIdx.x % 4;
    const uint32_t *at =
        (const uint32_t *)(uintptr_t)(tile & 0xFFFFFFFFFFFF) + 4 * (column / 8 * step);
    for (int i = 0; i < 2; i++, at += 4 * pitch) {
        const uint16_t *two = (const uint16_t *)(at + 8 * t) + column % 8;
        words[i] = is_transposed ? two[0] | (uint32_t)two[8] << 16 : at[4 * (column % 8) + t];
    }
}

template <int N, bool IS_BF16>
DEVICE void multiply_emulated(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t tile,
                              bool has_sum, bool is_transposed) {
    for (int j = 0; j < N / 8; j++) {
        uint32_t b[2];
        words_of_tile(b, tile, 8 * j + threadIdx.x % 32 / 4, is_transposed);
        float part[4] = {};
        for (int e = 0; has_sum && e < 4; e++)
            part[e] = d[4 * j + e];
        if (IS_BF16)
            mma_bf16(part, a, b);
        else
            mma_f16(part, a, b);
        for (int e = 0; e < 4; e++)
            d[4 * j + e] = part[e];
    }
}

template <bool IS_BF16>
DEVICE void multiply_emulated(float (&d)[64], uint64_t tile_a, uint64_t tile, bool has_sum) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    uint32_t upper[2], lower[2];
    words_of_tile(upper, tile_a, row);
    words_of_tile(lower, tile_a, row + 8);
    const uint32_t a[4] = {upper[0], lower[0], upper[1], lower[1]};
    multiply_emulated<128, IS_BF16>(d, a, tile, has_sum, false);
}
#define CUSHIM_EMULATED_PRODUCT(...) __VA_ARGS__
#else
#define CUSHIM_EMULATED_PRODUCT(...)
#endif

/* The registers of sums, and the numbers of all operands. */
#define CUSHIM_SUMS_8(i)                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define CUSHIM_SUMS_16 CUSHIM_SUMS_8(0), CUSHIM_SUMS_8(8)
#define CUSHIM_SUMS_32 CUSHIM_SUMS_16, CUSHIM_SUMS_8(16), CUSHIM_SUMS_8(24)
#define CUSHIM_SUMS_64                                                                             \
    CUSHIM_SUMS_32, CUSHIM_SUMS_8(32), CUSHIM_SUMS_8(40), CUSHIM_SUMS_8(48), CUSHIM_SUMS_8(56)
#define CUSHIM_NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CUSHIM_NUMBERS_32                                                                          \
    CUSHIM_NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "   \
                      "%30, %31"
#define CUSHIM_NUMBERS_64                                                                          \
    CUSHIM_NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
                      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "     \
                      "%60, %61, %62, %63"
#define CUSHIM_FACTORS_16 "{%16, %17, %18, %19}, %20, has_sum, 1, 1, %22"
#define CUSHIM_FACTORS_32 "{%32, %33, %34, %35}, %36, has_sum, 1, 1, %38"
#define CUSHIM_FACTORS_64 "{%64, %65, %66, %67}, %68, has_sum, 1, 1, %70"

/* A product of 2 N columns; `has` is the number of the operand that says whether there are sums. */
#define CUSHIM_MULTIPLY_TILE(name, types, is_bf16, n, columns, has)                                \
    template <bool HAS_SUM, bool IS_TRANSPOSED = false>                                            \
    DEVICE void name(float(&d)[n], const uint32_t(&a)[4], uint64_t tile) {                         \
        CUSHIM_EMULATED_PRODUCT(                                                                   \
            multiply_emulated<2 * n, is_bf16>(d, a, tile, HAS_SUM, IS_TRANSPOSED));                \
        CUSHIM_WGMMA_ASM("{.reg .pred has_sum; setp.ne.b32 has_sum, " has ", 0; "                  \
                         "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types              \
                         " {" CUSHIM_NUMBERS_##n "}, " CUSHIM_FACTORS_##n ";}"                     \
                         : CUSHIM_SUMS_##n                                                         \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(HAS_SUM),    \
                           "n"(IS_TRANSPOSED));                                                    \
    }
/* The same of 128 columns with A from shared memory. */
#define CUSHIM_MULTIPLY_TILES(name, types, is_bf16)                                                \
    template <bool HAS_SUM> DEVICE void name(float(&d)[64], uint64_t tile_a, uint64_t tile) {      \
        CUSHIM_EMULATED_PRODUCT(multiply_emulated<is_bf16>(d, tile_a, tile, HAS_SUM));             \
        CUSHIM_WGMMA_ASM("{.reg .pred has_sum; setp.ne.b32 has_sum, %66, 0; "                      \
                         "wgmma.mma_async.sync.aligned.m64n128k16.f32." types                      \
                         " {" CUSHIM_NUMBERS_64 "}, %64, %65, has_sum, 1, 1, 0, 0;}"               \
                         : CUSHIM_SUMS_64                                                          \
                         : "l"(tile_a), "l"(tile), "n"(HAS_SUM));                                  \
    }
#define CUSHIM_MULTIPLY(suffix, types, is_bf16)                                                    \
    CUSHIM_MULTIPLY_TILE(multiply_tile##suffix, types, is_bf16, 16, "32", "%21")                   \
    CUSHIM_MULTIPLY_TILE(multiply_tile##suffix, types, is_bf16, 32, "64", "%37")                   \
    CUSHIM_MULTIPLY_TILE(multiply_tile##suffix, types, is_bf16, 64, "128", "%69")                  \
    CUSHIM_MULTIPLY_TILES(multiply_tiles##suffix, types, is_bf16)

/*
 * Values are of one type of 16 bits or the other.  B may be transposed: 8 j + i is then the place
 * of row i of columns 8 j .. 8 j + 7, and one pitch behind it is row i + 8.
 */
CUSHIM_MULTIPLY(, "f16.f16", false)
CUSHIM_MULTIPLY(_bf16, "bf16.bf16", true)

#define CUSHIM_WAIT_PRODUCTS(n)                                                                    \
    DEVICE void wait_products([[maybe_unused]] float(&d)[n]) {                                     \
        CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;" : CUSHIM_SUMS_##n::"memory");          \
    }
CUSHIM_WAIT_PRODUCTS(16)
CUSHIM_WAIT_PRODUCTS(32)
CUSHIM_WAIT_PRODUCTS(64)

#endif
