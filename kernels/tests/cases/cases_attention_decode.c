/*
 * Decode at the edges of its lengths, groups, layouts and ways to join chunks.
 *
 * A length in device memory is an input like others: a replay finds another one.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/tests/cases/cases_attention.h"

enum { Q, K, V, LENGTH, O, SCRATCH };
enum {
    BATCH,
    Q_HEADS,
    KV_HEADS,
    DIM,
    KV_LEN,
    MAX,
    IS_HEAD_MAJOR, /* [batch * heads][max][dim], else [batch][max][heads * dim] */
    HAS_LENGTH,    /* in device memory */
    SCRATCH_PCT,   /* of what is asked for */
    N_SIZES
};

/* ---- inputs ---- */

#define LENGTH_MAKER(name, value)                                                                  \
    static void make_length_##name(struct kernel_draw *draw, void *values, size_t n) {             \
        (void)draw;                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((int32_t *)values)[i] = (value);                                                      \
    }
/* of a cache of 100 */
LENGTH_MAKER(negative, -1)
LENGTH_MAKER(0, 0)
LENGTH_MAKER(1, 1)
LENGTH_MAKER(50, 50)
LENGTH_MAKER(100, 100)
LENGTH_MAKER(101, 101)
LENGTH_MAKER(least, INT32_MIN)
LENGTH_MAKER(most, INT32_MAX)

static void make_length_any(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % 103) - 1;
}

/* A cache with one batch whose second half has not been written. */
static void make_half_nan(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = n / 2; i < n; i++)
        ((float *)values)[i] = NAN;
}

/* ---- the function ---- */

static struct cushim_kv_strides strides_of(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    struct cushim_kv_strides strides = {s[KV_HEADS] * s[MAX] * s[DIM], s[DIM],
                                        s[KV_HEADS] * s[DIM]};
    if (s[IS_HEAD_MAJOR]) {
        strides.head = s[MAX] * s[DIM];
        strides.position = s[DIM];
    }
    return strides;
}

static size_t scratch_bytes(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    return cushim_attention_decode_f32_scratch(s[BATCH], s[Q_HEADS], s[KV_HEADS], s[DIM], s[MAX]) *
           (size_t)s[SCRATCH_PCT] / 100 / sizeof(float) * sizeof(float);
}

static void lay_out(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    size_t n_q = (size_t)(s[BATCH] * s[Q_HEADS] * s[DIM]);
    size_t n_kv = (size_t)(s[BATCH] * s[KV_HEADS] * s[DIM] * s[MAX]);
    case_operand(c, "q", TYPE_F32, ROLE_IN, n_q)->make = make_gauss_f32;
    case_operand(c, "k", TYPE_F32, ROLE_IN, n_kv)->make = make_gauss_f32;
    case_operand(c, "v", TYPE_F32, ROLE_IN, n_kv)->make = make_gauss_f32;
    case_operand(c, "kv_len_ptr", TYPE_I32, ROLE_IN, (size_t)s[HAS_LENGTH])->make = make_length_any;
    case_operand(c, "o", TYPE_F32, ROLE_OUT, n_q);
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes(c) / sizeof(float));
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    struct cushim_kv_strides strides = strides_of(c);
    enum cushim_status status = cushim_attention_decode_f32(
        c->device[Q], c->device[K], c->device[V], c->device[LENGTH], c->device[O], s[BATCH],
        s[Q_HEADS], s[KV_HEADS], s[DIM], s[KV_LEN], s[MAX], &strides, c->device[SCRATCH],
        scratch_bytes(c), stream);
    strides = (struct cushim_kv_strides){-1, -1, -1}; /* a replay must not read it again */
    return status;
}

static void ref(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    struct cushim_kv_strides strides = strides_of(c);
    cushim_attention_decode_f32_ref(c->host[Q], c->host[K], c->host[V],
                                    s[HAS_LENGTH] ? c->host[LENGTH] : NULL, c->host[O], s[BATCH],
                                    s[Q_HEADS], s[KV_HEADS], s[DIM], s[KV_LEN], s[MAX], &strides);
}

static double flops(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    return 4.0 * (double)(s[BATCH] * s[Q_HEADS] * s[DIM]) * (double)s[KV_LEN];
}

/* What one query head sees. */
struct seen {
    const float *q, *k, *v; /* at its first position */
    int64_t n, step, dim;   /* positions, from one to the next, columns */
};

/* Scores, and the largest sum of |q k| of any, both over sqrt(dim). */
static double find_scores(const struct seen *seen, double *scores) {
    double terms = 0, factor = 1 / sqrt((double)seen->dim);
    for (int64_t p = 0; p < seen->n; p++) {
        double sum = 0;
        scores[p] = 0;
        for (int64_t d = 0; d < seen->dim; d++) {
            double term = (double)seen->q[d] * seen->k[p * seen->step + d] * factor;
            scores[p] += term;
            sum += fabs(term);
        }
        terms = fmax(terms, sum);
    }
    return terms;
}

/*
 * 2^-21 of the weighted mean of |v|, plus the share by which its weights may be wrong, because
 * their scores are themselves sums in float.
 */
static bool is_head_right(const struct seen *seen, const float *got, const float *want,
                          double *scores) {
    double terms = find_scores(seen, scores), most = -INFINITY;
    for (int64_t p = 0; p < seen->n; p++)
        most = fmax(most, scores[p]);
    for (int64_t d = 0; d < seen->dim; d++) {
        double whole = 0, sum = 0;
        for (int64_t p = 0; p < seen->n; p++) {
            double weight = exp(scores[p] - most);
            whole += weight;
            sum += weight * fabs(seen->v[p * seen->step + d]);
        }
        double bound = ldexp(sum / whole * (1 + terms), -21) + 0x1p-148;
        if (isfinite(want[d]) && isfinite(bound) && fabs((double)got[d] - want[d]) > bound)
            return false;
    }
    return true;
}

static const char *check_each(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    const struct cushim_kv_strides strides = strides_of(c);
    int64_t n = s[HAS_LENGTH] ? *(const int32_t *)c->host[LENGTH] : s[KV_LEN];
    n = n < 0 ? 0 : n > s[MAX] ? s[MAX] : n;
    double *scores = malloc((size_t)(n + 1) * sizeof *scores);
    bool is_right = true;
    for (int64_t i = 0; n && s[DIM] && i < s[BATCH] * s[Q_HEADS] && is_right; i++) {
        int64_t group = s[Q_HEADS] / s[KV_HEADS];
        int64_t begin = i / s[Q_HEADS] * strides.batch + i % s[Q_HEADS] / group * strides.head;
        const struct seen seen = {(const float *)c->host[Q] + i * s[DIM],
                                  (const float *)c->host[K] + begin,
                                  (const float *)c->host[V] + begin,
                                  n,
                                  strides.position,
                                  s[DIM]};
        is_right = is_head_right(&seen, (const float *)c->got[O] + i * s[DIM],
                                 (const float *)c->host[O] + i * s[DIM], scores);
    }
    free(scores);
    return is_right ? NULL : "an element is beyond its bound";
}

static const struct kernel_subject attention_decode_f32 = {.name = "attention_decode_f32",
                                                           .n_sizes = N_SIZES,
                                                           .lay_out = lay_out,
                                                           .run = run,
                                                           .ref = ref,
                                                           .tolerance = {.nmse = 1e-12},
                                                           .check = check_each,
                                                           .flops = flops};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t q_heads,
                               int64_t kv_heads, int64_t dim, int64_t kv_len, int64_t max,
                               int64_t has_length, int64_t scratch_pct) {
    return table_add(
        table, &attention_decode_f32, note,
        (int64_t[]){1, q_heads, kv_heads, dim, kv_len, max, 0, has_length, scratch_pct}, NULL);
}

/* ---- cases ---- */

static void add_lengths(struct kernel_table *table) {
    static const struct {
        const char *note;
        kernel_make *make;
    } lengths[] = {{"length -1", make_length_negative}, {"length 0", make_length_0},
                   {"length 1", make_length_1},         {"length 50", make_length_50},
                   {"length 100", make_length_100},     {"length 101", make_length_101},
                   {"least length", make_length_least}, {"largest length", make_length_most},
                   {"any length", make_length_any}};
    static const int64_t host_lengths[] = {0, 1, 3, 4, 5, 31, 32, 33, 99, 100, 101};
    for (int64_t scratch_pct = 0; scratch_pct <= 100; scratch_pct += 50) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            add(table, lengths[i].note, 4, 2, 64, 0, 100, 1, scratch_pct)->operands[LENGTH].make =
                lengths[i].make;
        for (size_t i = 0; i < sizeof host_lengths / sizeof *host_lengths; i++)
            add(table, NULL, 4, 2, 128, host_lengths[i], 100, 0, scratch_pct);
    }
    for (int64_t scratch_pct = 0; scratch_pct <= 100; scratch_pct += 100) {
        struct kernel_case *c =
            add(table, "NaN beyond the length", 4, 2, 32, 60, 120, 0, scratch_pct);
        c->operands[K].make = c->operands[V].make = make_half_nan;
        c = add(table, "NaN beyond the length", 2, 2, 33, 60, 120, 0, scratch_pct);
        c->operands[K].make = c->operands[V].make = make_half_nan;
        c = add(table, "NaN beyond the length", 2, 2, 257, 60, 120, 0, scratch_pct);
        c->operands[K].make = c->operands[V].make = make_half_nan;
    }
}

static void add_values(struct kernel_table *table, int64_t scratch_pct) {
    for (size_t i = 0; i < ATTENTION_N_VALUES; i++)
        attention_set_values(
            add(table, attention_values[i].note, 4, 2, 32, 150, 150, 0, scratch_pct),
            &attention_values[i]);
}

static void add_shapes(struct kernel_table *table) {
    static const int64_t dims[] = {1, 2, 31, 32, 33, 40, 64, 80, 96, 128, 130, 256, 257, 300};
    static const int64_t groups[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        add(table, NULL, 4, 2, dims[i], 70, 70, 0, 0);
        add(table, NULL, 4, 2, dims[i], 70, 70, 1, 100);
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        add(table, NULL, groups[i], 1, 32, 70, 70, 0, 0);
        add(table, NULL, 2 * groups[i], 2, 64, 70, 70, 0, 100);
        add(table, NULL, groups[i], 1, 128, 40, 40, 0, 100);
        add(table, NULL, groups[i], 1, 256, 40, 40, 0, 0);
    }
    for (int64_t is_head_major = 0; is_head_major < 2; is_head_major++) {
        for (int64_t scratch_pct = 0; scratch_pct <= 100; scratch_pct += 100) {
            for (int64_t batch = 1; batch <= 3; batch++)
                table_add(table, &attention_decode_f32, NULL,
                          (int64_t[]){batch, 6, 3, 40, 60, 90, is_head_major, 1, scratch_pct},
                          NULL);
        }
    }
    add(table, "many rows", 150, 150, 32, 9, 9, 0, 100);
    add(table, "many chunks", 2, 1, 32, 2000, 2000, 0, 100);
    add(table, "a wide cluster", 2, 1, 32, 600, 600, 0, 0);
    add(table, "a wider cluster", 2, 1, 32, 1100, 1100, 0, 0);
    add(table, "a long row in a cluster", 2, 1, 32, 3000, 3000, 0, 100);
    table_add(table, &attention_decode_f32, "a cluster of two",
              (int64_t[]){60, 1, 1, 32, 70, 70, 0, 0, 100}, NULL);
    /* warps add to their totals more than twice */
    add(table, "several spans", 1, 1, 32, 40000, 40000, 0, 0);
    add(table, "several spans", 8, 1, 64, 40000, 40000, 0, 0);
    table_add_offsets(table, add(table, NULL, 4, 2, 36, 40, 50, 1, 100));
}

/* Chunks of one row, which go through scratch even on 9.0 if they are more than a cluster has. */
static void add_chunks(struct kernel_table *table) {
    enum { CHUNK = 32 };
    static const int64_t n_chunks[] = {2, 15, 16, 17, 33, 64, 65, 80, 81, 97, 256};
    static const int64_t dims[] = {33, 36, 128, 130, 256};
    for (size_t i = 0; i < sizeof n_chunks / sizeof *n_chunks; i++)
        add(table, "one row", 2, 1, 32, CHUNK * n_chunks[i], CHUNK * n_chunks[i], 0, 100);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        add(table, "one row", 2, 1, dims[i], 33 * CHUNK, 33 * CHUNK, 0, 100);
    for (int64_t dim = 32; dim < 34; dim++) {
        struct kernel_case *c =
            add(table, "NaN beyond the length", 1, 1, dim, 33 * CHUNK, 66 * CHUNK, 0, 100);
        c->operands[K].make = c->operands[V].make = make_half_nan;
    }
    table_add_offsets(table, add(table, "one row", 2, 1, 36, 33 * CHUNK, 33 * CHUNK, 1, 100));
}

void cases_attention_decode(struct kernel_table *table) {
    add_lengths(table);
    add_values(table, 0);
    add_values(table, 100);
    add_shapes(table);
    add_chunks(table);
    table_add(table, &attention_decode_f32, "empty", (int64_t[]){0, 4, 2, 8, 5, 5, 0, 1, 100},
              NULL);
    table_add(table, &attention_decode_f32, "empty", (int64_t[]){1, 0, 0, 8, 5, 5, 0, 0, 0}, NULL);
    table_add(table, &attention_decode_f32, "empty", (int64_t[]){1, 4, 2, 0, 5, 5, 0, 0, 0}, NULL);
    table_add(table, &attention_decode_f32, "no cache", (int64_t[]){1, 4, 2, 8, 5, 0, 0, 0, 0},
              NULL);
}
