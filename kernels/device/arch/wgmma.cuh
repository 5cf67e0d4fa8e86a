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
DEVICE void words_of_tile(uint32_t *words, uint64_t tile, int column) {
    int pitch = (int)(tile >> 48 & 0xFF) + 1, step = (int)(tile >> 56) + 1;
    const uint32_t *at =
        (const uint32_t *)(uintptr_t)(tile & 0xFFFFFFFFFFFF) + 4 * (column / 8 * step + column % 8);
    words[0] = at[threadIdx.x % 4];
    words[1] = at[threadIdx.x % 4 + 4 * pitch];
}

template <int N, bool IS_BF16 = false>
DEVICE void multiply_emulated(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t tile,
                              bool has_sum) {
    for (int j = 0; j < N / 8; j++) {
        uint32_t b[2];
        words_of_tile(b, tile, 8 * j + threadIdx.x % 32 / 4);
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
#endif

#ifdef CUSHIM_EMULATED
#define CUSHIM_EMULATED_TILE(n, is_bf16) multiply_emulated<n, is_bf16>(d, a, tile, HAS_SUM)
#else
#define CUSHIM_EMULATED_TILE(n, is_bf16)
#endif

/* Tiles of 32 and of 64 columns; values are of one type of 16 bits or the other. */
#define CUSHIM_MULTIPLY_TILE(name, types, is_bf16)                                                 \
    template <bool HAS_SUM>                                                                        \
    DEVICE void name(float(&d)[16], const uint32_t(&a)[4], uint64_t tile) {                        \
        CUSHIM_EMULATED_TILE(32, is_bf16);                                                         \
        CUSHIM_WGMMA_ASM("{.reg .pred has_sum; setp.ne.b32 has_sum, %21, 0; "                      \
                         "wgmma.mma_async.sync.aligned.m64n32k16.f32." types " {"                  \
                         "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"    \
                         "}, {%16, %17, %18, %19}, %20, has_sum, 1, 1, 0;}"                        \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), \
                           "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),            \
                           "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])         \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(HAS_SUM));   \
    }                                                                                              \
    template <bool HAS_SUM>                                                                        \
    DEVICE void name(float(&d)[32], const uint32_t(&a)[4], uint64_t tile) {                        \
        CUSHIM_EMULATED_TILE(64, is_bf16);                                                         \
        CUSHIM_WGMMA_ASM(                                                                          \
            "{.reg .pred has_sum; setp.ne.b32 has_sum, %37, 0; "                                   \
            "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " {"                               \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"       \
            "}, {%32, %33, %34, %35}, %36, has_sum, 1, 1, 0;}"                                     \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
              "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),           \
              "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),        \
              "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),        \
              "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),        \
              "+f"(d[31])                                                                          \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(HAS_SUM));                \
    }

CUSHIM_MULTIPLY_TILE(multiply_tile, "f16.f16", false)
CUSHIM_MULTIPLY_TILE(multiply_tile_bf16, "bf16.bf16", true)

DEVICE void wait_products(float (&d)[16]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])::"memory");
}

DEVICE void wait_products(float (&d)[32]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                       "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                       "+f"(d[30]), "+f"(d[31])::"memory");
}

/* D = A * B + D with A from shared memory. */
template <bool HAS_SUM> DEVICE void multiply_tiles(float (&d)[64], uint64_t tile_a, uint64_t tile) {
#ifdef CUSHIM_EMULATED
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    uint32_t upper[2], lower[2];
    words_of_tile(upper, tile_a, row);
    words_of_tile(lower, tile_a, row + 8);
    const uint32_t a[4] = {upper[0], lower[0], upper[1], lower[1]};
    multiply_emulated<128>(d, a, tile, HAS_SUM);
#else
    CUSHIM_WGMMA_ASM(
        "{.reg .pred has_sum; setp.ne.b32 has_sum, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, has_sum, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "l"(tile_a), "l"(tile), "n"(HAS_SUM));
#endif
}

DEVICE void wait_products(float (&d)[64]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                       "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                       "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                       "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                       "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                       "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                       "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                       "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])::"memory");
}

#endif
