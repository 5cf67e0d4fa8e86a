/*
 * Attention at the edges of its tiles, its paths and its values.
 *
 * The mean error is bounded.  Besides, no element of a whole sequence's output may be further from
 * the reference than twice the worst of a plain attention in float on the same inputs, plus two
 * steps of the largest output or half a step of the largest value.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/tests/frame/case.h"
#include "kernels/tests/cases/cases_attention.h"

enum { Q, K, V, O };
enum { BATCH, HEADS, SEQ, DIM, CAUSAL, N_SIZES };

/* ---- inputs ---- */

static void scale(struct kernel_draw *draw, void *values, size_t n, double by) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)(draw_gauss(draw) * by);
}

static void make_huge(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 1e18);
}

static void make_tiny(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 1e-18);
}

/* Too small to be scaled up to halves. */
static void make_least(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 1e-35);
}

/* The same for keys that bring scores back to ordinary sizes. */
static void make_most(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 1e35);
}

/* Magnitudes over 40 powers of 2, more than two halves with one scale hold. */
static void make_uneven(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), -(int)(draw_bits(draw) % 40));
}

void make_whole_numbers(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)((int)(draw_bits(draw) % 65) - 32);
}

/* Rows of 32. */
enum { ROW = 32 };

void make_keys_infinite(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = 0; i < n; i += ROW)
        ((float *)values)[i] = -INFINITY;
}

/*
 * A large first column, and queries without it, so that scores come from what is small beside it.
 */
static void make_large_column(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = 0; i < n; i += ROW)
        ((float *)values)[i] *= 0x1p30f;
}

static void make_no_column(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = 0; i < n; i += ROW)
        ((float *)values)[i] = 0;
}

/* Large where the other has 0: scores are 0, though no float holds the product of the largest. */
static void make_large_even(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 0x1p80);
    for (size_t i = 1; i < n; i += 2)
        ((float *)values)[i] = 0;
}

static void make_large_odd(struct kernel_draw *draw, void *values, size_t n) {
    scale(draw, values, n, 0x1p80);
    for (size_t i = 0; i < n; i += 2)
        ((float *)values)[i] = 0;
}

static void make_half_infinite(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    make_keys_infinite(draw, values, n / ROW / 2 * ROW);
}

static void one_of(struct kernel_draw *draw, void *values, size_t n, float value) {
    make_gauss_f32(draw, values, n);
    if (n)
        ((float *)values)[n - 1 - n / 5] = value;
}

void make_one_infinite(struct kernel_draw *draw, void *values, size_t n) {
    one_of(draw, values, n, INFINITY);
}

void make_one_nan(struct kernel_draw *draw, void *values, size_t n) {
    one_of(draw, values, n, NAN);
}

/* ---- plain attention in float ---- */

static void attend_plainly(const float *q, const float *k, const float *v, int64_t n_keys,
                           int64_t dim, float *scores, float *o) {
    float most = -INFINITY, whole = 0, factor = 1.0f / sqrtf((float)dim);
    for (int64_t key = 0; key < n_keys; key++) {
        scores[key] = 0;
        for (int64_t d = 0; d < dim; d++)
            scores[key] = fmaf(q[d], k[key * dim + d], scores[key]);
        scores[key] *= factor;
        most = fmaxf(most, scores[key]);
    }
    for (int64_t d = 0; d < dim; d++)
        o[d] = 0;
    for (int64_t key = 0; key < n_keys; key++) {
        float weight = expf(scores[key] - most);
        whole += weight;
        for (int64_t d = 0; d < dim; d++)
            o[d] = fmaf(weight, v[key * dim + d], o[d]);
    }
    for (int64_t d = 0; d < dim; d++)
        o[d] /= whole;
}

static double largest(const float *values, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : most;
    return most;
}

static double worst(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(a[i]) && isfinite(b[i]))
            most = fmax(most, fabs((double)a[i] - b[i]));
    }
    return most;
}

static const char *check_worst(const struct kernel_case *c) {
    int64_t seq = c->sizes[SEQ], dim = c->sizes[DIM];
    int64_t n = c->sizes[BATCH] * c->sizes[HEADS] * seq * dim;
    const float *q = c->host[Q], *k = c->host[K], *v = c->host[V], *o = c->host[O];
    float *plain = malloc((size_t)(n + seq + 1) * sizeof *plain);
    for (int64_t row = 0; n && row < n / dim; row++) {
        int64_t begin = row / seq * seq * dim, at = row * dim;
        attend_plainly(q + at, k + begin, v + begin, c->sizes[CAUSAL] ? row % seq + 1 : seq, dim,
                       plain + n, plain + at);
    }
    double ours = worst(c->got[O], o, n), theirs = worst(plain, o, n);
    double step = fmax(ldexp(largest(o, n), -22), ldexp(largest(v, n), -24));
    free(plain);
    return ours <= 2 * theirs + step ? NULL : "an error is above twice plain float's worst";
}

/* ---- whole sequences ---- */

static void lay_out(struct kernel_case *c) {
    size_t n = 1;
    for (int i = BATCH; i <= DIM; i++)
        n *= (size_t)c->sizes[i];
    case_operand(c, "q", TYPE_F32, ROLE_IN, n)->make = make_gauss_f32;
    case_operand(c, "k", TYPE_F32, ROLE_IN, n)->make = make_gauss_f32;
    case_operand(c, "v", TYPE_F32, ROLE_IN, n)->make = make_gauss_f32;
    case_operand(c, "o", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_attention_f32(c->device[Q], c->device[K], c->device[V], c->device[O],
                                c->sizes[BATCH], c->sizes[HEADS], c->sizes[SEQ], c->sizes[DIM],
                                c->sizes[CAUSAL], stream);
}

static void ref(const struct kernel_case *c) {
    cushim_attention_f32_ref(c->host[Q], c->host[K], c->host[V], c->host[O], c->sizes[BATCH],
                             c->sizes[HEADS], c->sizes[SEQ], c->sizes[DIM], c->sizes[CAUSAL]);
}

static double flops(const struct kernel_case *c) {
    double pairs = (double)c->sizes[SEQ] * (double)c->sizes[SEQ] * (c->sizes[CAUSAL] ? 0.5 : 1);
    return 4 * pairs * (double)(c->sizes[BATCH] * c->sizes[HEADS] * c->sizes[DIM]);
}

static const struct kernel_subject attention_f32 = {.name = "attention_f32",
                                                    .n_sizes = N_SIZES,
                                                    .lay_out = lay_out,
                                                    .run = run,
                                                    .ref = ref,
                                                    .tolerance = {.nmse = 1e-11},
                                                    .check = check_worst,
                                                    .flops = flops};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t seq,
                               int64_t dim, int64_t causal) {
    return table_add(table, &attention_f32, note, (int64_t[]){1, 1, seq, dim, causal}, NULL);
}

const struct attention_values attention_values[ATTENTION_N_VALUES] = {
    {"outliers", make_outliers_f32, make_outliers_f32, make_outliers_f32},
    {"scores that underflow", make_whole_numbers, make_whole_numbers, make_gauss_f32},
    {"all scores -infinity", make_positive_f32, make_keys_infinite, make_gauss_f32},
    {"NaN under -infinity", make_positive_f32, make_keys_infinite, make_one_nan},
    {"one infinite query", make_one_infinite, make_gauss_f32, make_gauss_f32},
    {"one infinite key", make_gauss_f32, make_one_infinite, make_gauss_f32},
    {"one infinite value", make_gauss_f32, make_gauss_f32, make_one_infinite},
    {"one NaN query", make_one_nan, make_gauss_f32, make_gauss_f32},
    {"one NaN key", make_gauss_f32, make_one_nan, make_gauss_f32},
    {"one NaN value", make_gauss_f32, make_gauss_f32, make_one_nan},
};

static const struct attention_values more_values[] = {
    {"huge queries, tiny keys", make_huge, make_tiny, make_gauss_f32},
    {"all scores equal", make_gauss_f32, make_zero, make_gauss_f32},
    {"queries of zero", make_zero, make_gauss_f32, make_gauss_f32},
    {"values of zero", make_gauss_f32, make_gauss_f32, make_zero},
    {"uneven queries", make_uneven, make_gauss_f32, make_gauss_f32},
    {"uneven keys", make_gauss_f32, make_uneven, make_gauss_f32},
    {"uneven values", make_gauss_f32, make_gauss_f32, make_uneven},
    {"keys large where queries are 0", make_no_column, make_large_column, make_gauss_f32},
    {"queries large where keys are 0", make_large_column, make_no_column, make_gauss_f32},
    {"values near the least", make_gauss_f32, make_gauss_f32, make_least},
    {"half of the scores -infinity", make_positive_f32, make_half_infinite, make_gauss_f32},
};

/* No query row can be scaled up to halves, or no score down from them. */
static const struct attention_values hard_values[] = {
    {"least queries, most keys", make_least, make_most, make_gauss_f32},
    {"an infinity in every query", make_keys_infinite, make_positive_f32, make_gauss_f32},
    {"large where the other is 0", make_large_even, make_large_odd, make_gauss_f32},
};

void attention_set_values(struct kernel_case *c, const struct attention_values *values) {
    c->operands[Q].make = values->q;
    c->operands[K].make = values->k;
    c->operands[V].make = values->v;
}

static void add_values(struct kernel_table *table, const struct attention_values *values,
                       size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (int64_t causal = 0; causal < 2; causal++)
            attention_set_values(add(table, values[i].note, 100, ROW, causal), &values[i]);
    }
}

/* A block has row tiles from both ends; one sees several tiles of keys and the other one. */
static void add_pairs(struct kernel_table *table) {
    static const struct attention_values *const values[] = {
        &attention_values[5] /* an infinite key */, &attention_values[7] /* a NaN query */,
        &more_values[4] /* uneven keys */, &more_values[5] /* uneven values */};
    add(table, "rows from both ends", 450, 128, 1);
    add(table, "rows from both ends", 513, 64, 1);
    add(table, "rows from both ends", 577, 100, 1);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        attention_set_values(add(table, values[i]->note, 420, ROW, 1), values[i]);
}

/* Whole warps of such rows, in small tiles and in large ones. */
static void add_hard_values(struct kernel_table *table) {
    static const int64_t dims[] = {32, 64, 96, 128, 256};
    for (size_t i = 0; i < sizeof hard_values / sizeof *hard_values; i++) {
        for (size_t j = 0; j < sizeof dims / sizeof *dims; j++) {
            const char *note = hard_values[i].note;
            int64_t many_heads[] = {200, 1, 20, dims[j], 0};
            attention_set_values(add(table, note, 128, dims[j], 0), &hard_values[i]);
            attention_set_values(table_add(table, &attention_f32, note, many_heads, NULL),
                                 &hard_values[i]);
        }
    }
}

void cases_attention(struct kernel_table *table) {
    static const int64_t seqs[] = {1, 2, 15, 17, 31, 33, 63, 64, 65, 127, 129, 200};
    static const int64_t dims[] = {1, 2, 31, 32, 33, 40, 64, 80, 96, 100, 128, 130, 256, 257};
    for (int64_t causal = 0; causal < 2; causal++) {
        for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++)
            add(table, NULL, seqs[i], 64, causal);
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            add(table, NULL, 70, dims[i], causal);
        table_add(table, &attention_f32, NULL, (int64_t[]){2, 3, 40, 40, causal}, NULL);
        table_add_offsets(table, add(table, NULL, 33, 36, causal));
    }
    /* with more blocks than multiprocessors tiles are medium, with still more they are large */
    table_add(table, &attention_f32, "many heads", (int64_t[]){2, 70, 20, 64, 1}, NULL);
    table_add(table, &attention_f32, "many heads", (int64_t[]){2, 70, 5, 96, 0}, NULL);
    table_add(table, &attention_f32, "many heads", (int64_t[]){140, 1, 9, 128, 1}, NULL);
    table_add(table, &attention_f32, "tiles of many heads", (int64_t[]){400, 1, 67, 64, 1}, NULL);
    table_add(table, &attention_f32, "tiles of many heads", (int64_t[]){140, 1, 67, 96, 0}, NULL);
    table_add(table, &attention_f32, "tiles of many heads", (int64_t[]){140, 1, 70, 128, 1}, NULL);
    table_add(table, &attention_f32, "tiles of many heads", (int64_t[]){200, 1, 67, 128, 1}, NULL);
    attention_set_values(
        table_add(table, &attention_f32, "hard tiles", (int64_t[]){140, 1, 35, 128, 0}, NULL),
        &(struct attention_values){NULL, make_uneven, make_uneven, make_uneven});
    for (int i = BATCH; i <= DIM; i++) {
        int64_t sizes[N_SIZES] = {2, 2, 2, 2, 0};
        sizes[i] = 0;
        table_add(table, &attention_f32, "empty", sizes, NULL);
    }
    add_values(table, attention_values, ATTENTION_N_VALUES);
    add_values(table, more_values, sizeof more_values / sizeof *more_values);
    add_hard_values(table);
    add_pairs(table);
    cases_attention_decode(table);
    cases_attention_cached(table);
}
