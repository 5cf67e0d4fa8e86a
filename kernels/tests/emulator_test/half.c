/* Conversions of binary16 against the compiler's own type. */
#include "kernels/tests/emulator_test/fixture.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 half_float;

TEST(each_code_widens_as_the_compiler_widens_it) {
    enum { N = 65536 };
    int n = N;
    uint16_t *in = fixture_memory(N * sizeof *in);
    float *out = fixture_memory(N * sizeof *out);
    for (int i = 0; i < N; i++)
        in[i] = (uint16_t)i;
    fixture_run("test_widen", FIXTURE_GRID(8, 128), &in, &out, &n);
    for (int i = 0; i < N; i++) {
        half_float half;
        memcpy(&half, &in[i], sizeof half);
        float wanted = (float)half;
        ck_assert(isnan(wanted) ? isnan(out[i]) : memcmp(&wanted, &out[i], sizeof wanted) == 0);
    }
}

/* The widened codes, the middles between them with their neighbours, and random floats. */
static int fill(float *in, int n) {
    uint64_t state = 99;
    int i = 0;
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t low = (uint16_t)code, high = (uint16_t)(code + 1);
        half_float a, b;
        memcpy(&a, &low, sizeof a);
        memcpy(&b, &high, sizeof b);
        in[i++] = (float)a;
        float middle = ((float)a + (float)b) / 2;
        in[i++] = middle;
        in[i++] = nextafterf(middle, INFINITY);
        in[i++] = nextafterf(middle, -INFINITY);
    }
    while (i < n) {
        uint32_t bits = (uint32_t)suite_random(&state);
        memcpy(&in[i++], &bits, sizeof bits);
    }
    in[0] = 65520.0f;
    in[1] = nextafterf(65520.0f, 0.0f);
    return i;
}

TEST(floats_narrow_to_the_nearest_and_ties_to_even) {
    enum { N = 4 * 65536 + 100000 };
    float *in = fixture_memory(N * sizeof *in);
    uint16_t *out = fixture_memory(N * sizeof *out);
    int n = fill(in, N);
    fixture_run("test_narrow", FIXTURE_GRID(8, 128), &in, &out, &n);
    for (int i = 0; i < N; i++) {
        half_float half = (half_float)in[i];
        uint16_t wanted;
        memcpy(&wanted, &half, sizeof wanted);
        if (isnan(in[i]))
            wanted = 0x7fff; /* as in the device's conversion */
        ck_assert_msg(out[i] == wanted, "%a: %04x, not %04x", (double)in[i], out[i], wanted);
    }
}

int main(void) {
    return tests_run("half");
}
