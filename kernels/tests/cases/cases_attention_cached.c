/*
 * Attention of many sequences: each type and layout of the caches, lengths at their edges, groups,
 * second chunks, and many queries with values of any size.
 */
#include <math.h>

#include "kernels/reference/half.h"
#include "kernels/tests/cases/cases_attention.h"

enum { Q, K, V, Q_BEGIN, Q_LEN, KV_BEGIN, KV_LEN, BLOCKS, O, SCRATCH };
enum {
    BATCH,
    Q_HEADS,
    KV_HEADS,
    DIM,
    MAX_Q,
    MAX_KV,
    TYPE,
    LAYOUT,
    CAUSAL,
    SCRATCH_PCT, /* of what is asked for */
    N_SIZES
};
/* PACKED: sequences of PACKED_LEN follow each other from the last to the first, and how many
 * queries there are at most is not said; so are blocks of BLOCK_LEN. */
enum { HEADS_LAST, HEADS_FIRST, PACKED, IN_BLOCKS, N_LAYOUTS };
enum { PACKED_LEN = 40, BLOCK_LEN = 5 };

/* ---- inputs ---- */

/* Beyond both ends of what most cases have. */
static void make_lengths(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % 90) - 5;
}

/* Of a cache of 700. */
static void make_long_lengths(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % 720) - 5;
}

static void make_packed_lengths(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % (PACKED_LEN + 4)) - 3;
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] =
            ((int32_t *)values)[i] > PACKED_LEN ? PACKED_LEN : ((int32_t *)values)[i];
}

static void make_from_last(int32_t *values, size_t n, int32_t by) {
    for (size_t i = 0; i < n; i++)
        values[i] = (int32_t)(n - 1 - i) * by;
}

static void make_packed(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    make_from_last(values, n, PACKED_LEN);
}

static void make_blocks(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    make_from_last(values, n, 1);
}

/* ---- the function ---- */

static int64_t n_blocks_of(const struct kernel_case *c) {
    return (c->sizes[MAX_KV] + BLOCK_LEN - 1) / BLOCK_LEN;
}

static int64_t max_q_len(const struct kernel_case *c) {
    return c->sizes[LAYOUT] == PACKED ? INT32_MAX : c->sizes[MAX_Q];
}

static size_t scratch_bytes(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    return cushim_attention_cached_f32_scratch(s[BATCH], s[Q_HEADS], s[KV_HEADS], s[DIM],
                                               max_q_len(c), s[MAX_KV]) *
           (size_t)s[SCRATCH_PCT] / 100 / sizeof(float) * sizeof(float);
}

static struct cushim_kv_cache cache_of(const struct kernel_case *c, void *const *memory) {
    const int64_t *s = c->sizes;
    struct cushim_kv_cache cache = {
        .k = memory[K],
        .v = memory[V],
        .strides = {s[MAX_KV] * s[KV_HEADS] * s[DIM], s[DIM], s[KV_HEADS] * s[DIM]},
        .kv_begin = c->operands[KV_BEGIN].n ? memory[KV_BEGIN] : NULL,
        .kv_len = c->operands[KV_LEN].n ? memory[KV_LEN] : NULL,
        .max_kv_len = s[MAX_KV],
        .blocks = c->operands[BLOCKS].n ? memory[BLOCKS] : NULL,
        .type = (enum cushim_kv_type)s[TYPE]};
    if (s[LAYOUT] == HEADS_FIRST) {
        cache.strides.head = s[MAX_KV] * s[DIM];
        cache.strides.position = s[DIM];
    } else if (s[LAYOUT] == PACKED) {
        cache.strides.batch = 0;
    } else if (s[LAYOUT] == IN_BLOCKS) {
        cache.strides.batch = BLOCK_LEN * s[KV_HEADS] * s[DIM];
        cache.blocks_per_sequence = n_blocks_of(c);
        cache.block_len = BLOCK_LEN;
    }
    return cache;
}

static void lay_out(struct kernel_case *c) {
    static const enum kernel_type types[] = {TYPE_F32, TYPE_F16, TYPE_BF16};
    static kernel_make *const makers[] = {make_gauss_f32, make_gauss_f16, make_gauss_bf16};
    const int64_t *s = c->sizes;
    bool is_packed = s[LAYOUT] == PACKED;
    size_t batch = (size_t)s[BATCH], n_q = batch * (size_t)(s[Q_HEADS] * s[MAX_Q] * s[DIM]);
    size_t n_blocks = s[LAYOUT] == IN_BLOCKS ? batch * (size_t)n_blocks_of(c) : 0;
    size_t n_positions = n_blocks ? n_blocks * BLOCK_LEN : batch * (size_t)s[MAX_KV];
    size_t n_kv = n_positions * (size_t)(s[KV_HEADS] * s[DIM]);
    /* queries and caches of one length each, or of any */
    size_t n_lengths = is_packed || s[LAYOUT] == IN_BLOCKS || s[CAUSAL] ? batch : 0;
    case_operand(c, "q", TYPE_F32, ROLE_IN, n_q)->make = make_gauss_f32;
    case_operand(c, "k", types[s[TYPE]], ROLE_IN, n_kv)->make = makers[s[TYPE]];
    case_operand(c, "v", types[s[TYPE]], ROLE_IN, n_kv)->make = makers[s[TYPE]];
    case_operand(c, "q_begin", TYPE_I32, ROLE_IN, is_packed ? batch : 0)->make = make_packed;
    case_operand(c, "q_len", TYPE_I32, ROLE_IN, is_packed || s[TYPE] ? n_lengths : 0)->make =
        is_packed ? make_packed_lengths : make_lengths;
    case_operand(c, "kv_begin", TYPE_I32, ROLE_IN, is_packed ? batch : 0)->make = make_packed;
    case_operand(c, "kv_len", TYPE_I32, ROLE_IN, n_lengths)->make = make_lengths;
    case_operand(c, "blocks", TYPE_I32, ROLE_IN, n_blocks)->make = make_blocks;
    case_operand(c, "o", TYPE_F32, ROLE_BOTH, n_q); /* what is of no query stays */
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH, scratch_bytes(c) / sizeof(float));
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    const int64_t *s = c->sizes;
    struct cushim_kv_cache cache = cache_of(c, c->device);
    enum cushim_status status = cushim_attention_cached_f32(
        c->device[Q], &cache, c->device[Q_BEGIN], c->device[Q_LEN], c->device[O], s[BATCH],
        s[Q_HEADS], s[KV_HEADS], s[DIM], max_q_len(c), s[CAUSAL], c->device[SCRATCH],
        scratch_bytes(c), stream);
    cache = (struct cushim_kv_cache){.max_kv_len = -1}; /* a replay must not read it again */
    return status;
}

static void ref(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    struct cushim_kv_cache cache = cache_of(c, c->host);
    cushim_attention_cached_f32_ref(
        c->host[Q], &cache, c->operands[Q_BEGIN].n ? c->host[Q_BEGIN] : NULL,
        c->operands[Q_LEN].n ? c->host[Q_LEN] : NULL, c->host[O], s[BATCH], s[Q_HEADS], s[KV_HEADS],
        s[DIM], max_q_len(c), s[CAUSAL]);
}

static const struct kernel_subject attention_cached_f32 = {.name = "attention_cached_f32",
                                                           .n_sizes = N_SIZES,
                                                           .lay_out = lay_out,
                                                           .run = run,
                                                           .ref = ref,
                                                           .tolerance = {.nmse = 1e-11}};

/* Three sequences of a chunk, which is the last of its cache if it is causal. */
static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t group,
                               int64_t dim, int64_t max_q, int64_t max_kv, int64_t type,
                               int64_t layout, int64_t causal) {
    return table_add(table, &attention_cached_f32, note,
                     (int64_t[]){3, 2 * group, 2, dim, max_q, max_kv, type, layout, causal, 0},
                     NULL);
}

/* Positions that no query sees. */
static void make_half_nan(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = n / 2; i < n; i++)
        ((float *)values)[i] = NAN;
}

static void make_half(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = 33;
}

/* The last position of one sequence, which only its last query sees. */
static void make_last_nan(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    ((float *)values)[n - 1] = NAN;
}

/* As many queries or positions as there may be. */
static void make_most(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = INT32_MAX;
}

enum { F16_NAN = 0x7E00, F16_INFINITY = 0x7C00, F16_SIGN = 0x8000 };
static void make_last_nan_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f16(draw, values, n);
    ((uint16_t *)values)[n - 1] = F16_NAN;
}

static void make_last_infinite_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f16(draw, values, n);
    ((uint16_t *)values)[n - 1] = F16_INFINITY;
}

static void make_last_minus_infinite_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f16(draw, values, n);
    ((uint16_t *)values)[n - 1] = F16_INFINITY | F16_SIGN;
}

/* Numbers, and weights of the same score, that are 0 behind their first bits. */
static void make_ones(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = 1;
}

static void make_zeros(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = 0;
}

/* What the terms of matrix units must leave as it is, with four rows of a block and with eight. */
static void add_odd_halves(struct kernel_table *table, int64_t pct) {
    for (int64_t group = 1; group <= 8; group += 7) {
        struct kernel_case *c =
            table_add(table, &attention_cached_f32, "NaN for the last query",
                      (int64_t[]){1, group, 1, 64, 3, 500, 1, HEADS_LAST, 1, pct}, NULL);
        c->operands[V].make = make_last_nan_f16;
        c->operands[Q_LEN].make = c->operands[KV_LEN].make = make_most;
        int64_t sizes[] = {1, group, 1, 64, 1, 100, 1, HEADS_LAST, 0, pct};
        c = table_add(table, &attention_cached_f32, "an infinite key", sizes, NULL);
        c->operands[Q].make = make_ones;
        c->operands[K].make = make_last_minus_infinite_f16;
        c = table_add(table, &attention_cached_f32, "an infinite value", sizes, NULL);
        c->operands[Q].make = make_zeros;
        c->operands[V].make = make_last_infinite_f16;
    }
}

/* Caches in chunks, in clusters, through scratch, or in one block, of one query and of a few. */
static void add_chunks(struct kernel_table *table) {
    static const int64_t groups[] = {1, 3, 8, 9, 40}, dims[] = {36, 64, 100, 128, 130, 256};
    static const int64_t of_few[][2] = {{2, 1}, {2, 4}, {3, 3}, {5, 6}, {8, 4}, {32, 1}, {11, 3}};
    for (int64_t pct = 0; pct <= 100; pct += 50) {
        for (int64_t layout = 0; layout < N_LAYOUTS; layout++) {
            for (int64_t type = 0; layout != PACKED && type < 3; type++) {
                int64_t n = layout == IN_BLOCKS || pct == 50 ? 700 : 2100;
                int64_t sizes[] = {2, 8, 2, 128, 1, n, type, layout, type == 0, pct};
                struct kernel_case *c =
                    table_add(table, &attention_cached_f32, "chunks", sizes, NULL);
                c->operands[KV_LEN].make = make_long_lengths;
                for (size_t i = 0; i < sizeof of_few / sizeof *of_few; i++) {
                    int64_t few[] = {2,    2 * of_few[i][1], 2,      64, of_few[i][0], 700,
                                     type, layout,           i != 3, pct};
                    c = table_add(table, &attention_cached_f32, "chunks of a few queries", few,
                                  NULL);
                    c->operands[KV_LEN].make = make_long_lengths;
                }
            }
        }
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
            table_add(table, &attention_cached_f32, "chunks",
                      (int64_t[]){1, groups[i], 1, 64, 1, 300, (int64_t)i % 3, IN_BLOCKS, 0, pct},
                      NULL);
        for (int64_t type = 0; type < 3; type++) {
            table_add(table, &attention_cached_f32, "chunks of the most rows",
                      (int64_t[]){1, 4, 1, 64, 32, 300, type, HEADS_LAST, 1, pct}, NULL);
            for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
                int64_t sizes[] = {2, 4, 2, dims[i], 1, 300, type, HEADS_FIRST, 0, pct};
                table_add(table, &attention_cached_f32, "chunks", sizes, NULL);
                sizes[MAX_Q] = 17; /* 34 rows, in slices */
                table_add(table, &attention_cached_f32, "chunks", sizes, NULL);
            }
        }
        struct kernel_case *c =
            table_add(table, &attention_cached_f32, "NaN for the last query",
                      (int64_t[]){1, 4, 1, 64, 3, 500, 0, HEADS_LAST, 1, pct}, NULL);
        c->operands[V].make = make_last_nan;
        c->operands[KV_LEN].make = make_most;
        add_odd_halves(table, pct);
    }
    for (int64_t type = 0; type < 3; type++)
        table_add(table, &attention_cached_f32, "more rows than multiprocessors",
                  (int64_t[]){75, 8, 2, 128, 1, 90, type, HEADS_LAST, 1, 0}, NULL);
    struct kernel_case *c = table_add(table, &attention_cached_f32, "several spans",
                                      (int64_t[]){1, 4, 1, 64, 1, 40000, 1, IN_BLOCKS, 0, 0}, NULL);
    c->operands[KV_LEN].make = make_most;
}

/* ---- many queries ---- */

static void make_scaled_f32(struct kernel_draw *draw, void *values, size_t n, double by) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)(draw_gauss(draw) * by);
}

static void make_scaled_f16(struct kernel_draw *draw, void *values, size_t n, double by) {
    enum { MOST = 65504 };
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)values)[i] = cushim_f16_of(fmax(-MOST, fmin(draw_gauss(draw) * by, MOST)));
}

static void make_scaled_bf16(struct kernel_draw *draw, void *values, size_t n, double by) {
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)values)[i] = cushim_bf16_of(draw_gauss(draw) * by);
}

#define SCALED(name, type, by)                                                                     \
    static void name(struct kernel_draw *draw, void *values, size_t n) {                           \
        make_scaled_##type(draw, values, n, by);                                                   \
    }
SCALED(make_small, f32, 0x1p-14)
SCALED(make_large, f32, 0x1p20)
SCALED(make_tiny, f32, 1e-30)
SCALED(make_least, f32, 1e-37)
SCALED(make_huge, f32, 1e36)
SCALED(make_large_f16, f16, 0x1p15) /* some are the largest halves */
SCALED(make_least_f16, f16, 0x1p-20)
SCALED(make_large_bf16, bf16, 1e30)
SCALED(make_most_bf16, bf16, 1e36)

/* Some rows of 64 elements, side by side. */
static void make_some_zero(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f32(draw, values, n);
    for (size_t i = 0; i < n; i++)
        if (i / 64 % 100 < 40)
            ((float *)values)[i] = 0;
}

/* A first position that all queries see. */
static void make_first_infinite_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f16(draw, values, n);
    ((uint16_t *)values)[0] = F16_INFINITY;
}

static void make_first_minus_infinite_f16(struct kernel_draw *draw, void *values, size_t n) {
    make_gauss_f16(draw, values, n);
    ((uint16_t *)values)[0] = F16_INFINITY | F16_SIGN;
}

static const struct {
    int64_t type;
    struct attention_values values;
} sizes_of_values[] = {
    {0, {"large keys and values", make_tiny, make_huge, make_huge}},
    {0, {"the least queries", make_least, make_huge, make_gauss_f32}},
    {0, {"queries of zero", make_some_zero, make_gauss_f32, make_gauss_f32}},
    {1, {"large keys and values", make_small, make_large_f16, make_large_f16}},
    {1, {"the least keys and values", make_large, make_least_f16, make_least_f16}},
    {1, {"the least queries", make_least, make_large_f16, make_gauss_f16}},
    {1, {"queries of zero", make_some_zero, make_gauss_f16, make_gauss_f16}},
    {1, {"one infinite query", make_one_infinite, make_gauss_f16, make_gauss_f16}},
    {1, {"an infinite key", make_positive_f32, make_first_minus_infinite_f16, make_gauss_f16}},
    {1, {"an infinite score", make_positive_f32, make_first_infinite_f16, make_gauss_f16}},
    {1, {"an infinite value", make_gauss_f32, make_gauss_f16, make_first_infinite_f16}},
    {1, {"an infinite last value", make_gauss_f32, make_gauss_f16, make_last_infinite_f16}},
    {1, {"NaN for the last query", make_gauss_f32, make_gauss_f16, make_last_nan_f16}},
    {2, {"large keys", make_tiny, make_large_bf16, make_gauss_bf16}},
    {2, {"the least queries", make_least, make_most_bf16, make_gauss_bf16}},
    {2, {"the largest values", make_gauss_f32, make_gauss_bf16, make_most_bf16}},
    {2, {"queries of zero", make_some_zero, make_gauss_bf16, make_gauss_bf16}},
    {2, {"one infinite query", make_one_infinite, make_gauss_bf16, make_gauss_bf16}},
};

/* Several tiles of queries and of positions, whole and not, of which sequences have some. */
static void add_prompts(struct kernel_table *table) {
    static const int64_t of_group[][2] = {{1, 130}, {4, 70}, {5, 70}};
    static const int64_t dims[] = {8, 60, 64, 72, 100, 128};
    for (int64_t type = 0; type < 3; type++) {
        for (int64_t layout = 0; layout < N_LAYOUTS; layout++) {
            for (int64_t causal = 0; layout != PACKED && causal < 2; causal++) {
                struct kernel_case *c =
                    table_add(table, &attention_cached_f32, "prompts",
                              (int64_t[]){3, 8, 2, 64, 70, 400, type, layout, causal, 0}, NULL);
                c->operands[KV_LEN].make = make_long_lengths;
            }
        }
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            add(table, "prompts", of_group[i % 3][0], dims[i], of_group[i % 3][1], 150, type,
                i % 2 ? IN_BLOCKS : HEADS_FIRST, 1);
        table_add(table, &attention_cached_f32, "a prompt",
                  (int64_t[]){1, 4, 1, 128, 130, 300, type, HEADS_LAST, 0, 0}, NULL);
        table_add(table, &attention_cached_f32, "many prompts",
                  (int64_t[]){60, 4, 4, 32, 70, 40, type, HEADS_LAST, 0, 0}, NULL);
    }
    for (int64_t i = 0; i < 2 * ATTENTION_N_VALUES; i++) {
        struct kernel_case *c =
            table_add(table, &attention_cached_f32, attention_values[i / 2].note,
                      (int64_t[]){1, 2, 1, 32, 70, 150, 0, HEADS_LAST, i % 2, 0}, NULL);
        attention_set_values(c, &attention_values[i / 2]);
        c->operands[KV_LEN].make = make_most;
    }
    for (size_t i = 0; i < sizeof sizes_of_values / sizeof *sizes_of_values; i++) {
        struct kernel_case *c = table_add(
            table, &attention_cached_f32, sizes_of_values[i].values.note,
            (int64_t[]){1, 2, 1, 64, 70, 150, sizes_of_values[i].type, HEADS_LAST, 1, 0}, NULL);
        attention_set_values(c, &sizes_of_values[i].values);
        c->operands[Q_LEN].make = c->operands[KV_LEN].make = make_most;
    }
}

void cases_attention_cached(struct kernel_table *table) {
    static const int64_t dims[] = {1, 3, 32, 64, 100, 128, 130, 256, 258};
    static const int64_t lengths[][2] = {{1, 1},   {1, 70},  {4, 65},  {16, 64},
                                         {17, 63}, {33, 65}, {70, 130}};
    for (int64_t layout = 0; layout < N_LAYOUTS; layout++) {
        bool is_packed = layout == PACKED;
        for (int64_t type = 0; type < 3; type++) {
            for (int64_t causal = 0; causal < 2; causal++) {
                add(table, NULL, 2, 36, is_packed ? PACKED_LEN : 20, is_packed ? PACKED_LEN : 50,
                    type, layout, causal);
                add(table, NULL, 4, 64, is_packed ? PACKED_LEN : 2, is_packed ? PACKED_LEN : 90,
                    type, layout, causal);
            }
        }
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
            int64_t n = is_packed ? PACKED_LEN : 9;
            add(table, NULL, 1, dims[i], n, is_packed ? n : 40, (int64_t)i % 3, layout, 1);
            if (!is_packed)
                add(table, NULL, 3, dims[i], 1, 40, (int64_t)(i + 1) % 3, layout, 0);
        }
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t causal = 0; causal < 2; causal++) {
            add(table, "one length", 4, 64, lengths[i][0], lengths[i][1], 0, HEADS_LAST, causal);
            add(table, NULL, 1, 128, lengths[i][0], lengths[i][1], 1, IN_BLOCKS, causal);
        }
    }
    for (int64_t n_queries = 9; n_queries <= 33; n_queries += 24) { /* in slices, and in tiles */
        struct kernel_case *c =
            table_add(table, &attention_cached_f32, "NaN beyond the length",
                      (int64_t[]){1, 4, 1, 64, n_queries, 66, 0, HEADS_LAST, 1, 0}, NULL);
        c->operands[K].make = c->operands[V].make = make_half_nan;
        c->operands[KV_LEN].make = make_half;
    }
    table_add(table, &attention_cached_f32, "many sequences",
              (int64_t[]){300, 2, 1, 32, 3, 8, 0, HEADS_LAST, 1, 0}, NULL);
    table_add(table, &attention_cached_f32, "no cache",
              (int64_t[]){2, 2, 1, 8, 3, 0, 0, HEADS_LAST, 0, 0}, NULL);
    for (int i = BATCH; i <= MAX_Q; i++) {
        int64_t sizes[N_SIZES] = {2, 2, 2, 4, 2, 5, 0, HEADS_LAST, 0, 0};
        sizes[i] = 0;
        if (i == KV_HEADS)
            sizes[Q_HEADS] = 0;
        table_add(table, &attention_cached_f32, "empty", sizes, NULL);
    }
    add_chunks(table);
    add_prompts(table);
    table_add_offsets(table, add(table, NULL, 2, 36, 5, 20, 1, HEADS_FIRST, 1));
    struct kernel_case *c =
        add(table, NULL, 2, 8, 5, 300, 1, IN_BLOCKS, 1); /* the last is always run */
    c->operands[KV_LEN].make = make_long_lengths;
    table_add_offsets(table, c);
}
