/*
 * The emulator: threads, barriers, shared memory, clusters and matrices work, and faults are found.
 */
#include "kernels/tests/emulator_test/fixture.h"
#include "tests/unit/suite.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- what threads do together ---- */

/* The lane from which a lane reads in a shuffle, by the rule of the programming guide. */
static int shuffle_source(int kind, int lane, int argument, int width) {
    int first = lane / width * width, source = lane;
    switch (kind) {
    case 0:
        return first + (argument % width + width) % width;
    case 1:
        return lane - argument < first ? lane : lane - argument;
    case 2:
        return lane + argument >= first + width ? lane : lane + argument;
    default:
        source = lane ^ argument;
        return source >= first + width ? lane : source;
    }
}

TEST(a_shuffle_reads_the_lane_of_its_rule) {
    for (int argument = 0; argument < 32; argument++) {
        unsigned *out = fixture_memory(4 * 6 * 32 * sizeof *out);
        fixture_run("test_shuffles", FIXTURE_GRID(1, 32), &out, &argument);
        for (int i = 0; i < 4 * 6 * 32; i++) {
            int source = shuffle_source(i / 192, i % 32, argument, 1 << i / 32 % 6);
            ck_assert_msg(out[i] == 100u + (unsigned)source,
                          "kind %d, argument %d, width %d, lane %d: %u, not %d", i / 192, argument,
                          1 << i / 32 % 6, i % 32, out[i], 100 + source);
        }
    }
}

TEST(lanes_of_two_masks_go_their_own_ways) {
    double *out = fixture_memory(64 * sizeof *out);
    unsigned *votes = fixture_memory(64 * sizeof *votes);
    fixture_run("test_masks", FIXTURE_GRID(1, 64), &out, &votes);
    for (unsigned i = 0; i < 64; i++) {
        ck_assert_double_eq(out[i], i % 2 == 0 ? 1 : i < 32 ? 256 : 256 + 16 * 32);
        ck_assert_uint_eq(votes[i], i % 2 ? 0xaaaaa800u : 3016u);
    }
}

TEST(older_devices_find_the_same_extremes_of_a_warp) {
    unsigned *in = fixture_memory(32 * sizeof *in);
    unsigned(*out)[4] = fixture_memory(32 * sizeof *out);
    unsigned bits = 1;
    for (int turn = 0; turn < 20; turn++) {
        unsigned most = 0, least = UINT_MAX;
        for (int i = 0; i < 32; i++) {
            bits = bits * 1664525 + 1013904223;
            in[i] = turn ? bits >> turn : i % 2 ? UINT_MAX : 0;
            most = in[i] > most ? in[i] : most;
            least = in[i] < least ? in[i] : least;
        }
        fixture_run("test_extremes", FIXTURE_GRID(1, 32), &in, &out);
        for (int i = 0; i < 32; i++) {
            ck_assert_uint_eq(out[i][0], most);
            ck_assert_uint_eq(out[i][1], most);
            ck_assert_uint_eq(out[i][2], least);
            ck_assert_uint_eq(out[i][3], least);
        }
    }
}

TEST(a_block_of_1024_threads_meets_at_a_barrier) {
    enum { N = 1024 * 12 };
    int *in = fixture_memory(N * sizeof *in), *out = fixture_memory(N * sizeof *out);
    const struct fixture_shape shape = {
        .grid = {2, 3, 2}, .block = {16, 8, 8}, .cluster = {1, 1, 1}};
    for (int i = 0; i < N; i++)
        in[i] = i * 7;
    for (int round = 0; round < 2; round++) {
        memset(out, 0, N * sizeof *out);
        fixture_run("test_turn", shape, &in, &out);
        for (int i = 0; i < N; i++)
            ck_assert_int_eq(out[i], in[i / 1024 * 1024 + 1023 - i % 1024]);
    }
}

TEST(some_of_a_block_meet_and_some_only_arrive) {
    int *out = fixture_memory(32 * sizeof *out);
    memset(out, 0, 32 * sizeof *out);
    fixture_run("test_some", FIXTURE_GRID(1, 96), &out);
    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(out[i], (1 + 2 + 3) * (i + i + 32));
}

TEST(a_barrier_counts_votes) {
    int *out = fixture_memory(100 * 3 * sizeof *out);
    fixture_run("test_votes", FIXTURE_GRID(1, 100), &out);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(out[i * 3], 34);
        ck_assert_int_ne(out[i * 3 + 1], 0);
        ck_assert_int_eq(out[i * 3 + 2], 0);
    }
    fixture_run("test_votes", FIXTURE_GRID(1, 40), &out);
    ck_assert_int_eq(out[1], 0);
    ck_assert_int_ne(out[2], 0);
}

TEST(atomics_give_what_all_threads_give) {
    int *sum = fixture_memory(sizeof *sum);
    unsigned *most = fixture_memory(sizeof *most);
    unsigned long long *count = fixture_memory(sizeof *count);
    *sum = 0x7fffffff;
    fixture_run("test_atomics", FIXTURE_GRID(3, 65), &sum, &most, &count);
    ck_assert_int_eq(*sum, (int)(0x7fffffffu + 3 * 65 * 32));
    ck_assert_uint_eq(*most, 2064);
    ck_assert_uint_eq(*count, 195);
}

TEST(parameters_come_as_they_were_sent) {
    struct {
        int64_t sizes[5];
        const float *from;
        char letter;
    } mixed = {{1, -2, 3, INT64_MAX / 1024 * 1024, 5}, NULL, 'c'};
    float *from = fixture_memory(sizeof *from);
    double *out = fixture_memory(9 * sizeof *out);
    const double wanted[] = {'a', 1, -2, 3, (double)(INT64_MAX / 1024 * 1024), 5, 2.5, 'c', -9};
    char first = 'a';
    short last = -9;
    *from = 2.5f;
    mixed.from = from;
    fixture_run("test_parameters", FIXTURE_GRID(1, 1), &first, &mixed, &out, &last);
    for (int i = 0; i < 9; i++)
        ck_assert_double_eq(out[i], wanted[i]);
}

/* ---- shared memory ---- */

TEST(shared_memory_that_nobody_wrote_is_nan) {
    unsigned *out = fixture_memory(4 * 3 * sizeof *out);
    struct fixture_shape shape = FIXTURE_GRID(4, 1);
    shape.shared_bytes = 64;
    fixture_run("test_poison", shape, &out);
    for (int i = 0; i < 12; i++)
        ck_assert_uint_eq(out[i], 0xffffffff);
    shape.cluster[0] = 2;
    fixture_run("test_poison", shape, &out);
    for (int i = 0; i < 12; i++)
        ck_assert_uint_eq(out[i], 0xffffffff);
}

TEST(blocks_of_a_cluster_reach_each_others_shared_memory) {
    enum { N = 64 };
    for (unsigned n_blocks = 1; n_blocks <= 16; n_blocks *= 2) {
        unsigned *out = fixture_memory(2 * n_blocks * N * 3 * sizeof *out);
        struct fixture_shape shape = FIXTURE_GRID(2 * n_blocks, N);
        shape.cluster[0] = n_blocks;
        shape.shared_bytes = 60 * 1024;
        fixture_run("test_exchange", shape, &out);
        for (unsigned i = 0; i < 2 * n_blocks * N; i++) {
            unsigned block = i / N, first = block / n_blocks * n_blocks;
            unsigned next = first + (block - first + 1) % n_blocks;
            ck_assert_uint_eq(out[i * 3], next * 1000 + i % N);
            ck_assert_uint_eq(out[i * 3 + 1], next * 2000 + i % N);
            ck_assert_uint_eq(out[i * 3 + 2], (block - first + n_blocks - 1) % n_blocks);
        }
    }
}

TEST(gates_open_when_all_of_a_cluster_have_come) {
    for (unsigned n_blocks = 2; n_blocks <= 8; n_blocks *= 2) {
        unsigned *out = fixture_memory(2 * n_blocks * 32 * sizeof *out);
        struct fixture_shape shape = FIXTURE_GRID(2 * n_blocks, 64);
        shape.cluster[0] = n_blocks;
        shape.shared_bytes = 128 * n_blocks;
        fixture_run("test_gates", shape, &out);
        for (unsigned i = 0; i < 2 * n_blocks * 32; i++) {
            unsigned wanted = 0, first = i / 32 / n_blocks * n_blocks;
            for (unsigned block = first; block < first + n_blocks; block++)
                wanted += 1001 * (0 + 1 + 2) + 3 * (32 * block + i % 32 + block - first);
            ck_assert_uint_eq(out[i], wanted);
        }
    }
}

TEST(a_copy_is_there_after_its_wait_and_not_before) {
    float *in = fixture_memory(256 * sizeof *in), *out = fixture_memory(384 * sizeof *out);
    for (int i = 0; i < 256; i++)
        in[i] = (float)i;
    fixture_run("test_copies", FIXTURE_GRID(1, 32), &in, &out);
    ck_assert_mem_eq(out, in, 128 * sizeof *in);
    for (int i = 0; i < 128; i++) {
        unsigned char wanted[4] = {0}, *got = (unsigned char *)&out[256 + i];
        int n_bytes = i / 4 % 17 - i % 4 * 4;
        ck_assert(out[128 + i] != out[128 + i]);
        memcpy(wanted, &in[128 + i], n_bytes < 0 ? 0 : n_bytes > 4 ? 4 : (size_t)n_bytes);
        ck_assert_mem_eq(got, wanted, 4);
    }
}

TEST(bytes_come_in_bulk_for_a_gate) {
    float *in = fixture_memory(256 * sizeof *in), *out = fixture_memory(256 * sizeof *out);
    for (int i = 0; i < 256; i++)
        in[i] = (float)i;
    fixture_run("test_copies_for_a_gate", FIXTURE_GRID(1, 32), &in, &out);
    ck_assert_mem_eq(out, in, 256 * sizeof *in);
}

/* ---- faults ---- */

static const struct fault {
    const char *kernel;
    struct fixture_shape shape;
    int number; /* its first parameter; 0 means memory */
    const char *text;
} faults[] = {
    {"bad_barrier", FIXTURE_SHAPE(2, 32), 0,
     "waits at __syncthreads, but thread (5, 0, 0) of block"},
    {"bad_some", FIXTURE_SHAPE(1, 64), 0, "waits at barrier 3, but thread (32, 0, 0) of block"},
    {"bad_arrival", FIXTURE_SHAPE(1, 64), 0, "ends when 32 of 64 are at barrier 3"},
    {"bad_gate", FIXTURE_SHAPE(1, 64), 1, "waits at a gate: 1 of 2 have come, 0 bytes are due"},
    {"bad_gate", FIXTURE_SHAPE(1, 64), 2, "waits at a gate: 2 of 2 have come, 32 bytes are due"},
    {"bad_gate", FIXTURE_SHAPE(1, 64), 3, "is one too many at a gate of 2"},
    {"bad_copy_for_a_gate", FIXTURE_SHAPE(1, 1), 0, "not all are multiples of 16"},
    {"bad_send", FIXTURE_SHAPE(1, 32), 0, "sends in a cluster of one block"},
    {"bad_return", FIXTURE_SHAPE(1, 32), 0, "but thread (7, 0, 0) of block (0, 0, 0) has returned"},
    {"bad_kind", FIXTURE_SHAPE(1, 32), 0, "__syncwarp of mask ffffffff"},
    {"bad_warp_barrier", FIXTURE_SHAPE(1, 64), 0,
     "thread (40, 0, 0) of block (0, 0, 0) has returned"},
    {"bad_mask", FIXTURE_SHAPE(1, 32), 0, "of mask 00000001, which lane"},
    {"bad_source", FIXTURE_SHAPE(1, 32), 0, "reads lane 16, which is not in it"},
    {"bad_cluster",
     {.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}},
     0,
     "waits at the cluster's barrier, but thread (0, 0, 0) of block (1, 0, 0) has returned"},
    {"bad_peer",
     {.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}, .shared_bytes = 64},
     0,
     "block 1 of the cluster has ended"},
    {"bad_shared",
     {.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 64},
     16,
     "byte 64 of 64 bytes of dynamic shared memory was written"},
    {"bad_alignment", FIXTURE_SHAPE(1, 1), 0, "misaligned"},
    {"bad_sum", FIXTURE_SHAPE(1, 1), 0, "overflows"},
    {"bad_address", FIXTURE_SHAPE(1, 1), 0, "nothing is there"},
    {"bad_depth", FIXTURE_SHAPE(1, 1), 0, "the stack ended"},
    {"bad_bound", FIXTURE_SHAPE(1, 65), 0,
     "a block of 65 threads is above the kernel's bound of 64"},
};

TEST(a_fault_ends_the_process_with_its_name, .n = sizeof faults / sizeof *faults) {
    const struct fault *fault = &faults[_i];
    char text[1024], wanted[128];
    snprintf(wanted, sizeof wanted, "emulator: kernel %s, block (", fault->kernel);
    bool has_died = fixture_dies(text, sizeof text, fault->kernel, fault->shape, fault->number);
    ck_assert_msg(has_died, "%s: %s", fault->kernel, text);
    ck_assert_msg(strstr(text, wanted) && strstr(text, fault->text), "%s: %s", fault->kernel, text);
}

/* ---- loading ---- */

TEST(a_fatbin_has_the_kernels_of_the_program) {
    CUkernel kernel;
    CUlibrary library = fixture_library();
    ck_cuda(cuLibraryGetKernel(&kernel, library, "test_turn"));
    ck_cuda_is(cuLibraryGetKernel(&kernel, library, "test_nothing"), CUDA_ERROR_NOT_FOUND);
    ck_cuda(cuLibraryUnload(library));
}

int main(void) {
    return tests_run("emulator");
}
