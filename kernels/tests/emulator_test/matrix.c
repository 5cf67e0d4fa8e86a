/* Small matrices by a warp, compared with three loops. */
#include "kernels/tests/emulator_test/fixture.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 half_float;

enum { ROWS = 16, COLUMNS = 8 };

static uint64_t state = 12345;

/* A number of 8 bits and a sign, so that it is exact in each type, and so are sums of products. */
static float draw(void) {
    return (float)((int)(suite_random(&state) % 511) - 255) / 16;
}

static uint16_t f16_of(float value) {
    uint16_t bits;
    half_float half = (half_float)value;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint16_t bf16_of(float value) {
    return (uint16_t)(bits_of(value) >> 16);
}

/* The 13 bits that are cut must not count, so they are noise. */
static uint32_t tf32_of(float value) {
    return bits_of(value) | (uint32_t)(suite_random(&state) & 0x1fff);
}

static void check_sums(const float *d, const float *a, const float *b, int depth) {
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            double sum = 1;
            for (int k = 0; k < depth; k++)
                sum += (double)a[r * depth + k] * (double)b[k * COLUMNS + c];
            ck_assert_msg((double)d[r * COLUMNS + c] == sum, "row %d column %d: %g, not %g", r, c,
                          (double)d[r * COLUMNS + c], sum);
        }
    }
}

static void check_16(const char *kernel, int depth, uint16_t (*narrow)(float value)) {
    float a[ROWS * 16], b[16 * COLUMNS];
    for (int round = 0; round < 20; round++) {
        uint16_t *bits_a = fixture_memory(sizeof a), *bits_b = fixture_memory(sizeof b);
        float *d = fixture_memory(ROWS * COLUMNS * sizeof *d);
        for (int i = 0; i < ROWS * depth; i++)
            bits_a[i] = narrow(a[i] = draw());
        for (int i = 0; i < depth * COLUMNS; i++)
            bits_b[i] = narrow(b[i] = draw());
        fixture_run(kernel, FIXTURE_GRID(1, 32), &bits_a, &bits_b, &d);
        check_sums(d, a, b, depth);
    }
}

TEST(products_of_f16_are_those_of_three_loops) {
    check_16("test_mma_f16", 16, f16_of);
    check_16("test_mma_f16_k8", 8, f16_of);
}

TEST(products_of_bf16_are_those_of_three_loops) {
    check_16("test_mma_bf16", 16, bf16_of);
}

TEST(products_of_tf32_are_those_of_three_loops) {
    float a[ROWS * 8], b[8 * COLUMNS];
    uint32_t *bits_a = fixture_memory(sizeof a), *bits_b = fixture_memory(sizeof b);
    float *d = fixture_memory(ROWS * COLUMNS * sizeof *d);
    for (int i = 0; i < ROWS * 8; i++)
        bits_a[i] = tf32_of(a[i] = draw());
    for (int i = 0; i < 8 * COLUMNS; i++)
        bits_b[i] = tf32_of(b[i] = draw());
    fixture_run("test_mma_tf32", FIXTURE_GRID(1, 32), &bits_a, &bits_b, &d);
    check_sums(d, a, b, 8);
}

TEST(loads_of_matrices_give_the_parts_of_a_product) {
    check_16("test_load_matrix", 16, f16_of);
}

/* 1 + 2^-24 + 2^-24 + ... is truncated to 1 at the end if it was less than the next float. */
TEST(a_sum_is_cut_and_not_rounded) {
    uint16_t *a = fixture_memory(ROWS * 16 * sizeof *a),
             *b = fixture_memory(16 * COLUMNS * sizeof *b);
    float *d = fixture_memory(ROWS * COLUMNS * sizeof *d);
    a[0] = f16_of(0x1p-12f);
    b[0] = f16_of(0x1.8p-12f);
    b[1] = f16_of(-0x1.8p-12f);
    fixture_run("test_mma_f16", FIXTURE_GRID(1, 32), &a, &b, &d);
    ck_assert(d[0] == 1.0f);
    ck_assert(d[1] == 1.0f - 0x1p-23f);
}

int main(void) {
    return tests_run("matrix");
}
