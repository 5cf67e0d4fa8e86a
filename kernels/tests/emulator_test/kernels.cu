/* Kernels of the emulator's own tests: each does one thing that kernels rely on, or must not do. */
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/device/math/maximum.cuh"

/* ---- what threads do together ---- */

/* out[kind][width][lane] is what came; all lanes have the same argument. */
KERNEL(test_shuffles)(unsigned *out, int argument) {
    unsigned lane = threadIdx.x;
    for (int width = 1; width <= 32; width *= 2) {
        unsigned *row = out + __ffs(width) * 32 - 32 + lane;
        row[0] = __shfl_sync(~0u, 100 + lane, argument, width);
        row[192] = __shfl_up_sync(~0u, 100 + lane, (unsigned)argument, width);
        row[384] = __shfl_down_sync(~0u, 100 + lane, (unsigned)argument, width);
        row[576] = __shfl_xor_sync(~0u, 100 + lane, argument, width);
    }
}

/* The even and the odd lanes go different ways. */
KERNEL(test_masks)(double *out, unsigned *votes) {
    unsigned lane = threadIdx.x % 32;
    double value = threadIdx.x;
    if (lane % 2) {
        for (int step = 2; step < 32; step *= 2)
            value += __shfl_xor_sync(0xaaaaaaaau, value, step);
        votes[threadIdx.x] = __ballot_sync(0xaaaaaaaau, lane > 10);
    } else {
        votes[threadIdx.x] =
            __reduce_max_sync(0x55555555u, lane) * 100u + __reduce_add_sync(0x55555555u, 1u);
        __syncwarp(0x55555555u);
        value = __any_sync(0x55555555u, lane == 4) + 2 * __all_sync(0x55555555u, lane == 4);
    }
    out[threadIdx.x] = value;
}

/* The most and the least of a warp, as devices before 8.0 find them and as later ones do. */
KERNEL(test_extremes)(const unsigned *in, uint4 *out) {
    unsigned value = in[threadIdx.x];
    out[threadIdx.x] = make_uint4(max_of_warp_in_steps(value), max_of_warp(value),
                                  ~max_of_warp_in_steps(~value), min_of_warp(value));
}

/* A block reverses its part of the numbers through shared memory. */
KERNEL(test_turn)(const int *in, int *out) {
    __shared__ int part[1024];
    unsigned n = blockDim.x * blockDim.y * blockDim.z;
    unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    size_t block = blockIdx.x + (size_t)gridDim.x * (blockIdx.y + (size_t)gridDim.y * blockIdx.z);
    part[i] = in[block * n + i];
    __syncthreads();
    out[block * n + i] = part[n - 1 - i];
}

KERNEL(test_votes)(int *out) {
    out[threadIdx.x * 3] = __syncthreads_count(threadIdx.x % 3 == 0);
    out[threadIdx.x * 3 + 1] = __syncthreads_or(threadIdx.x == 40);
    out[threadIdx.x * 3 + 2] = __syncthreads_and(threadIdx.x != 40);
}

KERNEL(test_atomics)(int *sum, unsigned *most, unsigned long long *count) {
    atomicAdd(sum, (int)threadIdx.x);
    atomicMax(most, blockIdx.x * 1000 + threadIdx.x);
    atomicAdd(count, 1ull);
}

/* ---- shared memory ---- */

template <int N> DEVICE unsigned *unwritten() {
    __shared__ unsigned place[N];
    return place;
}

/* The bits of shared memory that nothing wrote in this block; then they are written. */
KERNEL(test_poison)(unsigned *out) {
    DYNAMIC_SHARED(unsigned, dynamic);
    __shared__ unsigned fixed[4];
    out[blockIdx.x * 3] = dynamic[5];
    out[blockIdx.x * 3 + 1] = fixed[2];
    out[blockIdx.x * 3 + 2] = unwritten<7>()[3];
    dynamic[5] = fixed[2] = unwritten<7>()[3] = 0;
}

/* Each block of a cluster reads what the next one wrote, in both kinds of shared memory. */
KERNEL(test_exchange)(unsigned *out) {
    DYNAMIC_SHARED(unsigned, dynamic);
    __shared__ unsigned fixed[64];
    unsigned next = (cluster_rank() + 1) % cluster_size();
    dynamic[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
    fixed[threadIdx.x] = blockIdx.x * 2000 + threadIdx.x;
    cluster_sync();
    unsigned *place = out + (blockIdx.x * blockDim.x + threadIdx.x) * 3;
    place[0] = *cluster_shared(&dynamic[threadIdx.x], next);
    place[1] = *cluster_shared(&fixed[threadIdx.x], next);
    cluster_sync();
    *cluster_shared(&fixed[threadIdx.x], next) = cluster_rank();
    cluster_sync();
    place[2] = fixed[threadIdx.x];
}

/*
 * Round by round each block of a cluster gives all others its part, and takes when all are there.
 */
KERNEL(test_gates)(unsigned *out) {
    DYNAMIC_SHARED(unsigned, parts);
    __shared__ Gate given, taken;
    __shared__ uint2 words[8];
    unsigned rank = cluster_rank(), size = cluster_size(), lane = threadIdx.x % 32, sum = 0;
    if (threadIdx.x == 0) {
        make_gate(&given, 1);
        make_gate(&taken, size);
    }
    cluster_sync();
    for (unsigned round = 0; round < 3; round++) {
        if (threadIdx.x < 32) {
            if (round > 0)
                wait_for_gate(&taken, round - 1);
            parts[32 * rank + lane] = 1000 * round + 32 * blockIdx.x + lane;
            __syncwarp();
            if (lane < size && lane != rank)
                copy_bulk_to(lane, parts + 32 * rank, 128, &given);
            if (lane < size)
                send_to(lane, &words[rank], &given, make_uint2(round, rank));
            if (lane == 0)
                arrive_at_gate(&given, 128 * (size - 1) + 8 * size);
        } else {
            wait_for_gate(&given, round);
            for (unsigned i = 0; i < size; i++)
                sum += parts[32 * i + lane] + words[i].x + words[i].y;
            __syncwarp();
            if (lane < size)
                arrive_at_gate_of(lane, &taken);
        }
    }
    cluster_sync();
    if (threadIdx.x >= 32)
        out[32 * blockIdx.x + lane] = sum;
}

/* in[2][32] in bulk, one round each; both threads that open the gate announce bytes. */
KERNEL(test_copies_for_a_gate)(const float4 *in, float4 *out) {
    __shared__ float4 place[32];
    __shared__ Gate gate;
    unsigned i = threadIdx.x;
    if (i == 0)
        make_gate(&gate, 2);
    __syncwarp();
    for (unsigned round = 0; round < 2; round++) {
        if (i % 16 == 0) {
            copy_bulk_for(place + i, in + 32 * round + i, 256, &gate);
            arrive_at_gate(&gate, 256);
        }
        wait_for_gate(&gate, round);
        out[32 * round + i] = place[i];
        __syncwarp();
    }
}

/* in[2][32] by two groups of copies; stores what is there after each wait. */
KERNEL(test_copies)(const float4 *in, float4 *out) {
    __shared__ float4 place[2][32];
    unsigned i = threadIdx.x;
    copy_async_16(&place[0][i], in + i);
    commit_copies();
    copy_async_16(&place[1][i], in + 32 + i, i % 17);
    commit_copies();
    wait_copies<1>();
    out[i] = place[0][i];
    out[32 + i] = place[1][i];
    wait_copies<0>();
    out[64 + i] = place[1][i];
}

/* ---- matrices: a [16][k], b [k][8], d [16][8] ---- */

DEVICE uint32_t pair(const uint16_t *low, size_t stride) {
    return low[0] | (uint32_t)low[stride] << 16;
}

template <int K>
DEVICE void load_parts(const uint16_t *a, const uint16_t *b, uint32_t *part_a, uint32_t *part_b) {
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < K / 4; i++)
        part_a[i] = pair(a + (g + i % 2 * 8) * K + 2 * t + i / 2 * 8, 1);
    for (int i = 0; i < K / 8; i++)
        part_b[i] = pair(b + (2 * t + i * 8) * 8 + g, 8);
}

DEVICE void store_sums(float *d, const float (&sums)[4]) {
    for (int i = 0; i < 4; i++)
        d[(threadIdx.x / 4 + i / 2 * 8) * 8 + threadIdx.x % 4 * 2 + i % 2] = sums[i];
}

#define PRODUCT(name, depth, multiply)                                                             \
    KERNEL(name)(const uint16_t *a, const uint16_t *b, float *d) {                                 \
        uint32_t part_a[depth / 4], part_b[depth / 8];                                             \
        float sums[4] = {1, 1, 1, 1};                                                              \
        load_parts<depth>(a, b, part_a, part_b);                                                   \
        multiply(sums, part_a, part_b);                                                            \
        store_sums(d, sums);                                                                       \
    }
PRODUCT(test_mma_f16, 16, mma_f16)
PRODUCT(test_mma_f16_k8, 8, mma_f16_k8)
PRODUCT(test_mma_bf16, 16, mma_bf16)

KERNEL(test_mma_tf32)(const uint32_t *a, const uint32_t *b, float *d) {
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    uint32_t part_a[4], part_b[2];
    float sums[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++)
        part_a[i] = a[(g + i % 2 * 8) * 8 + t + i / 2 * 4];
    for (int i = 0; i < 2; i++)
        part_b[i] = b[(t + i * 4) * 8 + g];
    mma_tf32(sums, part_a, part_b);
    store_sums(d, sums);
}

/*
 * The same product with its parts from shared memory: a [16][16] as four matrices, b [16][8]
 * transposed on the way.
 */
KERNEL(test_load_matrix)(const uint16_t *a, const uint16_t *b, float *d) {
    __shared__ __align__(16) uint16_t rows_a[16][16];
    __shared__ __align__(16) uint16_t rows_b[16][8];
    unsigned lane = threadIdx.x;
    uint32_t part_a[4], parts_b[4]; /* of b, the first two */
    float sums[4] = {1, 1, 1, 1};
    for (int i = 0; i < 8; i++)
        rows_a[lane / 2][lane % 2 * 8 + i] = a[lane * 8 + i];
    for (int i = 0; i < 4; i++)
        rows_b[lane / 2][lane % 2 * 4 + i] = b[lane * 4 + i];
    __syncwarp();
    load_matrix_x4(part_a, &rows_a[lane % 16][lane / 16 * 8]);
    load_matrix_x4_transposed(parts_b, &rows_b[lane % 16][0]);
    const uint32_t part_b[2] = {parts_b[0], parts_b[1]};
    mma_f16(sums, part_a, part_b);
    store_sums(d, sums);
}

/* ---- conversions ---- */

KERNEL(test_widen)(const uint16_t *in, float *out, int n) {
    for (int i = (int)thread_of_grid(); i < n; i += (int)threads_of_grid())
        out[i] = __half2float(__ushort_as_half(in[i]));
}

KERNEL(test_narrow)(const float *in, uint16_t *out, int n) {
    for (int i = (int)thread_of_grid(); i < n; i += (int)threads_of_grid())
        out[i] = __half_as_ushort(__float2half_rn(in[i]));
}

/* ---- parameters ---- */

struct Mixed {
    int64_t sizes[5];
    const float *from;
    char letter;
};

KERNEL(test_parameters)(char first, struct Mixed mixed, double *out, short last) {
    out[0] = first;
    for (int i = 0; i < 5; i++)
        out[1 + i] = (double)mixed.sizes[i];
    out[6] = *mixed.from;
    out[7] = mixed.letter;
    out[8] = last;
}

/* Warps 0 and 1 give and warp 2 takes, round after round; none of them waits for its own kind. */
KERNEL(test_some)(int *out) {
    __shared__ int given[64];
    int thread = (int)threadIdx.x;
    for (int round = 1; round <= 3; round++) {
        if (thread < 64) {
            if (round > 1)
                meet_some<96>(2);
            given[thread] = round * thread;
            arrive_at_some<96>(1);
        } else {
            meet_some<96>(1);
            out[thread - 64] += given[thread - 64] + given[thread - 32];
            if (round < 3)
                arrive_at_some<96>(2);
        }
    }
}

/* ---- what must not happen ---- */

KERNEL(bad_some)() {
    if (threadIdx.x < 32)
        meet_some<64>(3);
}

KERNEL(bad_arrival)() {
    if (threadIdx.x < 32)
        arrive_at_some<64>(3);
}

/* n of the two threads that open it. */
KERNEL(bad_gate)(int n) {
    __shared__ Gate gate;
    if (threadIdx.x == 0)
        make_gate(&gate, 2);
    __syncthreads();
    if ((int)threadIdx.x < n)
        arrive_at_gate(&gate, 16 * (n > 1));
    if (threadIdx.x >= 32)
        wait_for_gate(&gate, 0);
}

KERNEL(bad_send)() {
    __shared__ Gate gate;
    __shared__ uint2 place;
    if (threadIdx.x == 0) {
        make_gate(&gate, 1);
        send_to(0, &place, &gate, make_uint2(1, 2));
    }
}

KERNEL(bad_copy_for_a_gate)() {
    __shared__ float4 place[2];
    __shared__ Gate gate;
    make_gate(&gate, 1);
    copy_bulk_for(place, &place[1].y, 16, &gate);
}

KERNEL(bad_barrier)() {
    if (threadIdx.x != 5)
        __syncthreads();
}

KERNEL(bad_return)(float *out) {
    if (threadIdx.x == 7)
        return;
    out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}

KERNEL(bad_kind)() {
    if (threadIdx.x < 16)
        __shfl_xor_sync(~0u, 1, 1);
    else
        __syncwarp();
}

KERNEL(bad_warp_barrier)() {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncwarp();
    if (threadIdx.x == 40)
        return;
    __syncwarp();
}

KERNEL(bad_mask)() {
    __syncwarp(1);
}

KERNEL(bad_source)() {
    if (threadIdx.x < 16)
        __shfl_sync(0xffffu, 1, 16);
}

KERNEL(bad_cluster)() {
    if (blockIdx.x == 0 || threadIdx.x)
        cluster_sync();
}

KERNEL(bad_peer)(unsigned *out) {
    DYNAMIC_SHARED(unsigned, place);
    place[0] = 0;
    if (cluster_rank() == 0) {
        cluster_sync();
    } else {
        cluster_sync();
        return;
    }
    for (int i = 0; i < 3; i++)
        __syncthreads();
    out[0] = *cluster_shared(place, 1);
}

KERNEL(bad_shared)(int i) {
    DYNAMIC_SHARED(unsigned, place);
    place[i] = 0;
}

KERNEL(bad_alignment)(const float *in, float *out) {
    float4 value = *(const float4 *)(in + 1);
    *(float4 *)out = value;
}

KERNEL(bad_sum)(int *out) {
    out[0] = out[0] + 0x7fffffff + (out[1] + 1);
}

KERNEL(bad_address)(int *out) {
    out[1ull << 40] = 1;
}

KERNEL(bad_depth)(int *out) {
    volatile char much[400 * 1024];
    for (int i = 0; i < 400 * 1024; i += 512)
        much[i] = (char)i;
    out[0] = much[512];
}

KERNEL_OF(64, 1, bad_bound)(int *out) {
    out[0] = 1;
}
