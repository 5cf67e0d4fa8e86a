/*
 * libkernels.so: the layer of an encoder, compared with plain loops in double, and its gradients,
 * compared with differences of these.
 */
#include <math.h>
#include <string.h>

#include "kernels/tests/dropin/dropin_fixture.h"

enum { BATCH = 2, SEQ = 5, HEADS = 3, DIM = 4, FFN = 7, ROWS = BATCH * SEQ, D = HEADS * DIM };
enum { N_WEIGHTS = 16, N_KEPT = 16, N_TURNED = 6, N_BACK = 15 };

/* Rows and columns of the weights, in their order: q, k, v, o, ffn1, ffn2, norms. */
static const int rows_of[N_WEIGHTS] = {D, 1, D, 1, D, 1, D, 1, D, 1, FFN, 1, 1, 1, 1, 1};
static const int columns_of[N_WEIGHTS] = {D, D, D, D, D, D, D, D, FFN, FFN, D, D, D, D, D, D};
static const size_t n_kept[N_KEPT] = {
    ROWS * D,         ROWS,    ROWS *D, ROWS *D, ROWS *D, ROWS *D, ROWS *D,   ROWS *D,
    ROWS *SEQ *HEADS, ROWS *D, ROWS *D, ROWS *D, ROWS *D, ROWS,    ROWS *FFN, ROWS *FFN};
static const size_t n_back[N_BACK] = {ROWS * FFN, ROWS *FFN, ROWS *D, ROWS *D, ROWS *D,
                                      ROWS *D,    ROWS *D,   ROWS *D, ROWS *D, ROWS *SEQ *HEADS,
                                      ROWS *D,    ROWS *D,   ROWS *D, ROWS *D, ROWS *D};

static struct buffer weights[N_WEIGHTS], input, upstream;

static size_t n_of(int i) {
    return (size_t)rows_of[i] * (size_t)columns_of[i];
}

/* ---- in double ---- */

typedef double matrix[ROWS][D > FFN ? D : FFN];

/* `at` of the weights, with `step` added to element `element` of number `changed`; N_WEIGHTS is the
 * input. */
static int changed = -1;
static size_t element;
static double step;

static double weight(int number, size_t i) {
    const struct buffer *of = number < N_WEIGHTS ? &weights[number] : &input;
    return ((const float *)of->host)[i] + (number == changed && i == element ? step : 0);
}

static void norm(matrix x, int number, matrix y) {
    for (int row = 0; row < ROWS; row++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < D; i++)
            mean += x[row][i] / D;
        for (int i = 0; i < D; i++)
            squares += (x[row][i] - mean) * (x[row][i] - mean) / D;
        for (int i = 0; i < D; i++)
            y[row][i] = (x[row][i] - mean) / sqrt(squares + 1e-5f) * weight(number, (size_t)i) +
                        weight(number + 1, (size_t)i);
    }
}

static void project(matrix x, int number, matrix y) {
    int n = columns_of[number];
    for (int row = 0; row < ROWS; row++) {
        for (int j = 0; j < n; j++) {
            y[row][j] = weight(number + 1, (size_t)j);
            for (int i = 0; i < rows_of[number]; i++)
                y[row][j] += x[row][i] * weight(number, (size_t)(i * n + j));
        }
    }
}

static void attend(matrix q, matrix k, matrix v, matrix y) {
    for (int at = 0; at < ROWS * HEADS; at++) {
        int row = at / HEADS, first = row / SEQ * SEQ, head = at % HEADS * DIM;
        double weights_of[SEQ], sum = 0;
        for (int other = 0; other < SEQ; other++) {
            double score = 0;
            for (int d = head; d < head + DIM; d++)
                score += q[row][d] * k[first + other][d] / sqrt(DIM);
            weights_of[other] = exp(score);
            sum += weights_of[other];
        }
        for (int d = head; d < head + DIM; d++) {
            y[row][d] = 0;
            for (int other = 0; other < SEQ; other++)
                y[row][d] += weights_of[other] / sum * v[first + other][d];
        }
    }
}

static void find_output(matrix y) {
    matrix x, normed, q, k, v, heads, residual;
    for (size_t i = 0; i < ROWS * D; i++)
        x[i / D][i % D] = weight(N_WEIGHTS, i);
    norm(x, 12, normed);
    project(normed, 0, q);
    project(normed, 2, k);
    project(normed, 4, v);
    attend(q, k, v, heads);
    project(heads, 6, residual);
    for (int i = 0; i < ROWS * D; i++)
        residual[i / D][i % D] += x[i / D][i % D];
    norm(residual, 14, normed);
    project(normed, 8, q);
    for (int i = 0; i < ROWS * FFN; i++) {
        double *at = &q[i / FFN][i % FFN];
        *at = *at / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (*at + 0.044715 * *at * *at * *at)));
    }
    project(q, 10, y);
    for (int i = 0; i < ROWS * D; i++)
        y[i / D][i % D] += residual[i / D][i % D];
}

/* The output times the upstream gradient. */
static double loss(void) {
    matrix y;
    double sum = 0;
    find_output(y);
    for (int i = 0; i < ROWS * D; i++)
        sum += y[i / D][i % D] * ((const float *)upstream.host)[i];
    return sum;
}

/* What a difference says about an element. */
static float slope_of(int number, size_t i) {
    const double by = 0x1p-12;
    changed = number, element = i, step = by;
    double more = loss();
    step = -by;
    double less = loss();
    changed = -1;
    return (float)((more - less) / (2 * by));
}

/* ---- the library ---- */

static void make_rooms(void **rooms, const size_t *n, int n_rooms) {
    for (int i = 0; i < n_rooms; i++)
        rooms[i] = fixture_room(n[i] * sizeof(float)).device;
}

static struct buffer turned(int number) {
    int rows = rows_of[number], columns = columns_of[number];
    float values[D * (D > FFN ? D : FFN)];
    for (int i = 0; i < rows * columns; i++)
        values[i % columns * rows + i / columns] = ((const float *)weights[number].host)[i];
    return fixture_put(values, n_of(number) * sizeof(float));
}

TEST(an_encoder_s_layer_and_its_gradients) {
    const void *of_weights[N_WEIGHTS], *of_turned[N_TURNED];
    void *kept[N_KEPT], *back[N_BACK], *of_grads[N_WEIGHTS];
    struct buffer grads[N_WEIGHTS];
    matrix y;
    fixture_open();
    for (int i = 0; i < N_WEIGHTS; i++) {
        weights[i] = fixture_floats(n_of(i), -0.5, 0.5);
        of_weights[i] = weights[i].device;
    }
    input = fixture_floats(ROWS * D, -1, 1);
    upstream = fixture_floats(ROWS * D, -1, 1);
    struct buffer output = fixture_room(input.n_bytes), d_input = fixture_room(input.n_bytes);
    make_rooms(kept, n_kept, N_KEPT);
    ck_done(fused_encoder_fwd_f32(NULL, of_weights, kept, input.device, output.device, ROWS, D,
                                  HEADS, DIM, FFN, BATCH, SEQ, fixture_stream));
    find_output(y);
    for (int i = 0; i < ROWS * D; i++)
        ((float *)output.host)[i] = (float)y[i / D][i % D];
    fixture_assert_floats("fused_encoder_fwd_f32", &output);

    for (int i = 0; i < N_WEIGHTS; i++) {
        float ones[D * D];
        for (size_t j = 0; j < n_of(i); j++)
            ones[j] = 1;
        grads[i] = fixture_put(ones, n_of(i) * sizeof(float)); /* is added to */
        of_grads[i] = grads[i].device;
    }
    struct buffer of_w[N_TURNED];
    for (int i = 0; i < N_TURNED; i++) {
        of_w[i] = turned(2 * i);
        of_turned[i] = of_w[i].device;
    }
    make_rooms(back, n_back, N_BACK);
    ck_done(fused_encoder_bwd_f32(NULL, of_weights, of_turned, (const void **)kept, back, of_grads,
                                  upstream.device, d_input.device, input.device, ROWS, D, HEADS,
                                  DIM, FFN, BATCH, SEQ, fixture_stream));
    for (int i = 0; i < N_WEIGHTS; i++) {
        for (size_t j = 0; j < n_of(i); j++)
            ((float *)grads[i].host)[j] = 1 + slope_of(i, j);
        fixture_assert_floats("a gradient of weights", &grads[i]);
    }
    for (size_t j = 0; j < ROWS * D; j++)
        ((float *)d_input.host)[j] = slope_of(N_WEIGHTS, j);
    fixture_assert_floats("the gradient of the input", &d_input);
}

TEST(an_encoder_s_sizes_belong_together) {
    size_t n = 0;
    for (int i = 0; i < N_KEPT; i++)
        n += n_kept[i] * sizeof(float);
    ck_assert_int_eq(fused_encoder_fwd_scratch_bytes(ROWS, D, HEADS, DIM, FFN, BATCH, SEQ), n);
    const void *weights_of[N_WEIGHTS] = {0};
    void *bufs[N_KEPT] = {0};
#define FORWARD_OF(weights, rows, d)                                                               \
    fused_encoder_fwd_f32(NULL, weights, bufs, NULL, NULL, rows, d, HEADS, DIM, FFN, BATCH, SEQ,   \
                          NULL)
    ck_assert_int_eq(FORWARD_OF(NULL, ROWS, D), 1);
    ck_assert_int_eq(FORWARD_OF(weights_of, ROWS + 1, D), 1);
    ck_assert_int_eq(FORWARD_OF(weights_of, ROWS, D + 1), 1);
}

int main(void) {
    return tests_run("dropin_encoder");
}
