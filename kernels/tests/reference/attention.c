/*
 * Attention: the references compared with values by hand and identities, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

/* ---- whole sequences ---- */

TEST(one_key_gives_its_value) {
    const float q[3] = {1, -2, 3}, k[3] = {4, 5, -6}, v[3] = {7, -8, 9};
    float o[3] = {0};
    cushim_attention_f32_ref(q, k, v, o, 1, 1, 1, 3, false);
    for (int i = 0; i < 3; i++)
        ck_assert(o[i] == v[i]);
}

/* Scores of 0 and log 3 after the division by sqrt(4): weights 1/4 and 3/4. */
TEST(two_keys_are_weighed_by_their_scores) {
    const float q[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    const float k[8] = {0, 9, 9, 9, 2 * logf(3), 9, 9, 9};
    const float v[8] = {4, 8, 0, 1, 8, 0, 4, 1};
    const float wanted[8] = {7, 2, 3, 1, 7, 2, 3, 1};
    float o[8] = {0};
    cushim_attention_f32_ref(q, k, v, o, 1, 1, 2, 4, false);
    for (int i = 0; i < 8; i++)
        ck_assert_msg(fabsf(o[i] - wanted[i]) < 1e-5f, "%d: %g", i, (double)o[i]);
}

TEST(a_causal_query_sees_no_later_key) {
    const float q[3] = {1, 1, 1}, k[3] = {0, 0, NAN}, v[3] = {2, 4, INFINITY};
    float o[3] = {0};
    cushim_attention_f32_ref(q, k, v, o, 1, 1, 3, 1, true);
    ck_assert(o[0] == 2);
    ck_assert(o[1] == 3);
    ck_assert(isnan(o[2]));
}

TEST(heads_are_independent) {
    const float q[4] = {1, 2, 3, 4}, v[4] = {5, 6, 7, 8};
    float o[4] = {0};
    cushim_attention_f32_ref(q, q, v, o, 2, 2, 1, 1, false);
    ck_assert(memcmp(o, v, sizeof v) == 0);
}

TEST(equal_scores_give_the_mean_of_more_columns_than_a_block) {
    enum { SEQ = 3, DIM = 130 };
    float q[SEQ * DIM] = {0}, v[SEQ * DIM], o[SEQ * DIM];
    for (int i = 0; i < SEQ * DIM; i++)
        v[i] = (float)(i / DIM * 3 + i % DIM);
    cushim_attention_f32_ref(q, v, v, o, 1, 1, SEQ, DIM, false);
    for (int i = 0; i < SEQ * DIM; i++)
        ck_assert(o[i] == (float)(3 + i % DIM));
}

TEST(a_row_of_minus_infinity_is_zero_and_plus_infinity_is_nan) {
    const float q[2] = {1, -1}, k[2] = {-INFINITY, -INFINITY}, v[2] = {3, NAN};
    float o[2] = {5, 5};
    cushim_attention_f32_ref(q, k, v, o, 1, 1, 2, 1, false);
    ck_assert(o[0] == 0);
    ck_assert(isnan(o[1]));
}

TEST(a_score_of_minus_infinity_has_no_weight) {
    const float q[2] = {1, 1}, k[2] = {-INFINITY, 1}, v[2] = {3, 4};
    float o[2] = {0};
    cushim_attention_f32_ref(q, k, v, o, 1, 1, 2, 1, false);
    ck_assert(o[0] == 4 && o[1] == 4);
}

/* ---- decode ---- */

enum {
    BATCH = 2,
    Q_HEADS = 4,
    KV_HEADS = 2,
    DIM = 3,
    MOST = 5,
    N_KV = BATCH * KV_HEADS * MOST * DIM
};

static const struct cushim_kv_strides by_position = {MOST * KV_HEADS * DIM, DIM, KV_HEADS *DIM};
static const struct cushim_kv_strides by_head = {KV_HEADS * MOST * DIM, MOST *DIM, DIM};

static void decode(const float *q, const float *k, const float *v, const int32_t *length, float *o,
                   int64_t kv_len, const struct cushim_kv_strides *kv) {
    cushim_attention_decode_f32_ref(q, k, v, length, o, BATCH, Q_HEADS, KV_HEADS, DIM, kv_len, MOST,
                                    kv);
}

/* With keys of 0 the output is the mean of the values of the head's KV head. */
TEST(query_heads_share_a_kv_head_in_either_layout) {
    float q[BATCH * Q_HEADS * DIM], k[N_KV] = {0}, v[N_KV], o[BATCH * Q_HEADS * DIM];
    const struct cushim_kv_strides *layouts[] = {&by_position, &by_head};
    for (int i = 0; i < BATCH * Q_HEADS * DIM; i++)
        q[i] = (float)i;
    for (int layout = 0; layout < 2; layout++) {
        const struct cushim_kv_strides *kv = layouts[layout];
        for (int64_t i = 0; i < N_KV; i++) {
            int64_t d = i % DIM, p = i / DIM % MOST, h = i / DIM / MOST % KV_HEADS;
            int64_t b = i / DIM / MOST / KV_HEADS;
            v[b * kv->batch + h * kv->head + p * kv->position + d] =
                (float)(1000 * b + 100 * h + 10 * d + p);
        }
        decode(q, k, v, NULL, o, 3, kv);
        for (int i = 0; i < BATCH * Q_HEADS * DIM; i++) {
            int wanted =
                1000 * (i / DIM / Q_HEADS) + 100 * (i / DIM % Q_HEADS / 2) + 10 * (i % DIM);
            ck_assert(o[i] == (float)(wanted + 1));
        }
    }
}

TEST(a_length_is_clamped_to_the_cache) {
    float q[BATCH * Q_HEADS * DIM] = {0}, k[N_KV] = {0}, v[N_KV], o[BATCH * Q_HEADS * DIM];
    static const struct {
        int32_t length;
        float mean;
    } rows[] = {{INT32_MIN, 0}, {-1, 0}, {0, 0}, {1, 0}, {4, 1.5f}, {5, 2}, {6, 2}, {INT32_MAX, 2}};
    for (int i = 0; i < N_KV; i++)
        v[i] = (float)(i / DIM % MOST);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(o, 0xFF, sizeof o);
        decode(q, k, v, &rows[i].length, o, 3, &by_head);
        ck_assert(o[0] == rows[i].mean && o[BATCH * Q_HEADS * DIM - 1] == rows[i].mean);
        memset(o, 0xFF, sizeof o);
        decode(q, k, v, NULL, o, rows[i].length, &by_head);
        ck_assert(o[0] == rows[i].mean && o[BATCH * Q_HEADS * DIM - 1] == rows[i].mean);
    }
}

/* ---- arguments ---- */

#define ADDRESS ((float *)64)
#define WRONG   ((float *)66)

static void expect(enum cushim_status status, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), text) != NULL, "%s", cushim_last_error());
}

#define FORWARD(q, k, v, o, batch, heads, seq, dim)                                                \
    cushim_attention_f32(q, k, v, o, batch, heads, seq, dim, true, NULL)

TEST(a_wrong_call_of_attention_is_refused) {
    float *a = ADDRESS;
    expect(FORWARD(a, a, a, a, -1, 1, 1, 1), "batch=-1");
    expect(FORWARD(a, a, a, a, 1, -2, 1, 1), "heads=-2");
    expect(FORWARD(a, a, a, a, 1, 1, -3, 1), "seq=-3");
    expect(FORWARD(a, a, a, a, 0, 1, 1, -4), "head_dim=-4");
    expect(FORWARD(a, a, a, a, INT64_MAX, 2, 1, 1), "o");
    expect(FORWARD(a, a, a, a, INT64_MAX / 2, 1, 1, 1), "o");
    expect(FORWARD(NULL, a, a, a, 1, 1, 1, 1), "q=NULL");
    expect(FORWARD(a, NULL, a, a, 1, 1, 1, 1), "k=NULL");
    expect(FORWARD(a, a, NULL, a, 1, 1, 1, 1), "v=NULL");
    expect(FORWARD(a, a, a, NULL, 1, 1, 1, 1), "o=NULL");
    expect(FORWARD(WRONG, a, a, a, 1, 1, 1, 1), "q=0x42");
    expect(FORWARD(a, WRONG, a, a, 1, 1, 1, 1), "k=0x42");
    expect(FORWARD(a, a, WRONG, a, 1, 1, 1, 1), "v=0x42");
    expect(FORWARD(a, a, a, WRONG, 1, 1, 1, 1), "o=0x42");
}

TEST(nothing_to_attend_is_right_with_null) {
    struct cushim_kv_strides kv = {0, 0, 0};
    ck_assert_int_eq(FORWARD(NULL, NULL, NULL, NULL, 0, 1, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(FORWARD(NULL, NULL, NULL, NULL, 1, 1, 0, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_attention_decode_f32(NULL, NULL, NULL, NULL, NULL, 1, 0, 0, 8, 1, 1,
                                                 &kv, NULL, 0, NULL),
                     CUSHIM_OK);
}

/* A right call, except for what a test changes. */
struct arguments {
    float *q, *k, *v, *o, *scratch;
    int32_t *length;
    int64_t batch, n_q_heads, n_kv_heads, head_dim, kv_len, max_kv_len;
    struct cushim_kv_strides kv;
};

static const struct arguments right = {.q = ADDRESS,
                                       .k = ADDRESS,
                                       .v = ADDRESS,
                                       .o = ADDRESS,
                                       .batch = 1,
                                       .n_q_heads = 4,
                                       .n_kv_heads = 2,
                                       .head_dim = 8,
                                       .kv_len = 3,
                                       .max_kv_len = 5,
                                       .kv = {80, 40, 8}};

static enum cushim_status call(const struct arguments *a) {
    return cushim_attention_decode_f32(a->q, a->k, a->v, a->length, a->o, a->batch, a->n_q_heads,
                                       a->n_kv_heads, a->head_dim, a->kv_len, a->max_kv_len, &a->kv,
                                       a->scratch, a->scratch ? 4096 : 0, NULL);
}

#define EXPECT(text, ...)                                                                          \
    do {                                                                                           \
        struct arguments a = right;                                                                \
        __VA_ARGS__;                                                                               \
        expect(call(&a), text);                                                                    \
    } while (0)

TEST(a_wrong_call_of_decode_is_refused) {
    expect(cushim_attention_decode_f32(NULL, NULL, NULL, NULL, NULL, -1, 1, 1, 1, 1, 1, NULL, NULL,
                                       0, NULL),
           "kv=NULL");
    EXPECT("batch=-1", a.batch = -1);
    EXPECT("n_q_heads=-1", a.n_q_heads = -1);
    EXPECT("n_kv_heads=-1", a.n_kv_heads = -1);
    EXPECT("head_dim=-1", a.head_dim = -1);
    EXPECT("kv_len=-1", a.kv_len = -1);
    EXPECT("max_kv_len=-1", a.max_kv_len = -1);
    EXPECT("kv->batch=-1", a.kv.batch = -1);
    EXPECT("kv->head=-1", a.kv.head = -1);
    EXPECT("kv->position=-1", a.kv.position = -1);
    EXPECT("n_kv_heads=0", a.n_kv_heads = 0);
    EXPECT("n_q_heads=5 is not a multiple of 2", a.n_q_heads = 5);
    EXPECT("o has more elements", a.batch = INT64_MAX, a.head_dim = 3);
    EXPECT("kv reaches", a.batch = 3, a.kv.batch = INT64_MAX / 2 + 1);
    EXPECT("kv reaches", a.kv.position = INT64_MAX / 8);
    EXPECT("q=NULL", a.q = NULL);
    EXPECT("k=NULL", a.k = NULL);
    EXPECT("v=NULL", a.v = NULL);
    EXPECT("o=NULL", a.o = NULL);
    EXPECT("q=0x42", a.q = WRONG);
    EXPECT("k=0x42", a.k = WRONG);
    EXPECT("v=0x42", a.v = WRONG);
    EXPECT("o=0x42", a.o = WRONG);
    EXPECT("kv_len_ptr=0x42", a.length = (int32_t *)WRONG);
    EXPECT("scratch=0x42", a.scratch = WRONG);
}

TEST(scratch_is_asked_for_if_it_helps) {
    ck_assert_uint_gt(cushim_attention_decode_f32_scratch(1, 32, 8, 128, 4096), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(1, 32, 8, 128, 32), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(1000, 32, 8, 128, 4096), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(1, 32, 8, 257, 4096), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(1, 32, 7, 128, 4096), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(0, 32, 8, 128, 4096), 0);
    ck_assert_uint_eq(cushim_attention_decode_f32_scratch(INT64_MAX, 8, 8, 128, 4096), 0);
}

/* ---- caches ---- */

/* Keys of 0 give the mean of the values that a query sees. */
static const float zeros[16], ones_to_8[] = {1, 2, 3, 4, 5, 6, 7, 8};

TEST(the_queries_of_a_chunk_are_its_last_positions) {
    const int32_t kv_len[] = {4, 1};
    const struct cushim_kv_cache cache = {
        .k = zeros, .v = ones_to_8, .strides = {4, 1, 1}, .kv_len = kv_len, .max_kv_len = 4};
    float o[4];
    cushim_attention_cached_f32_ref(zeros, &cache, NULL, NULL, o, 2, 1, 1, 1, 2, true);
    ck_assert(o[0] == 2 && o[1] == 2.5f); /* of 1 .. 3, 1 .. 4 */
    ck_assert(o[2] == 0 && o[3] == 5);    /* of none, 5 */
}

TEST(heads_of_a_group_share_what_they_see) {
    const struct cushim_kv_cache cache = {
        .k = zeros, .v = ones_to_8, .strides = {8, 1, 2}, .max_kv_len = 4};
    float o[4];
    cushim_attention_cached_f32_ref(zeros, &cache, NULL, NULL, o, 1, 4, 2, 1, 1, false);
    ck_assert(o[0] == 4 && o[1] == 4 && o[2] == 5 && o[3] == 5);
}

TEST(packed_queries_and_positions_begin_where_they_are_said_to) {
    const int32_t q_begin[] = {2, 0}, q_len[] = {1, 1}, kv_begin[] = {6, 1}, kv_len[] = {2, 3};
    const struct cushim_kv_cache cache = {.k = zeros,
                                          .v = ones_to_8,
                                          .strides = {0, 1, 1},
                                          .kv_begin = kv_begin,
                                          .kv_len = kv_len,
                                          .max_kv_len = INT32_MAX};
    float o[] = {-1, -1, -1};
    cushim_attention_cached_f32_ref(zeros, &cache, q_begin, q_len, o, 2, 1, 1, 1, INT32_MAX, false);
    ck_assert(o[2] == 7.5f && o[0] == 3 && o[1] == -1);
}

TEST(a_table_names_blocks_of_halves_or_their_addresses) {
    const uint16_t halves[] = {0x3C00, 0x4000, 0x4200, 0x4400}; /* 1 .. 4 */
    const uint16_t bf16s[] = {0x3F80, 0x4000, 0x4040, 0x4080};
    const void *const addresses[] = {halves + 2, halves};
    const int32_t blocks[] = {1, 0};
    struct cushim_kv_cache cache = {.k = zeros,
                                    .v = halves,
                                    .strides = {2, 1, 1},
                                    .max_kv_len = 3,
                                    .blocks = blocks,
                                    .blocks_per_sequence = 2,
                                    .block_len = 2,
                                    .type = CUSHIM_KV_F16};
    float o;
    cushim_attention_cached_f32_ref(zeros, &cache, NULL, NULL, &o, 1, 1, 1, 1, 1, false);
    ck_assert(o == (3 + 4 + 1) / 3.0f);
    cache.v = bf16s;
    cache.type = CUSHIM_KV_BF16;
    cushim_attention_cached_f32_ref(zeros, &cache, NULL, NULL, &o, 1, 1, 1, 1, 1, false);
    ck_assert(o == (3 + 4 + 1) / 3.0f);
    cache.k = cache.v = addresses;
    cache.type = CUSHIM_KV_F16;
    cache.is_of_pointers = true;
    cushim_attention_cached_f32_ref(zeros, &cache, NULL, NULL, &o, 1, 1, 1, 1, 1, false);
    ck_assert(o == (1 + 2 + 3) / 3.0f);
}

TEST(a_wrong_cache_is_refused) {
    float *f = (float *)0x10000, *odd = (float *)0x10002;
    const int32_t *blocks = (const int32_t *)0x20000;
    const struct cushim_kv_cache good = {.k = f, .v = f, .strides = {64, 4, 8}, .max_kv_len = 8};
    struct cushim_kv_cache cache = good;
#define CACHED(q, cache, heads)                                                                    \
    cushim_attention_cached_f32(q, cache, NULL, NULL, f, 1, heads, 2, 4, 3, false, NULL, 0, NULL)
    expect(CACHED(f, NULL, 2), "cache=NULL");
    expect(CACHED(f, &cache, 3), "n_q_heads=3 is not a multiple of 2");
    expect(CACHED(odd, &cache, 2), "q=0x10002");
    cache.strides.head = -4;
    expect(CACHED(f, &cache, 2), "strides.head=-4 is negative");
    cache = good, cache.max_kv_len = -1;
    expect(CACHED(f, &cache, 2), "max_kv_len=-1 is negative");
    cache = good, cache.type = (enum cushim_kv_type)3;
    expect(CACHED(f, &cache, 2), "type=3");
    cache = good, cache.v = NULL;
    expect(CACHED(f, &cache, 2), "v=NULL");
    cache = good, cache.is_of_pointers = true;
    expect(CACHED(f, &cache, 2), "blocks=NULL with is_of_pointers");
    cache = good, cache.blocks = blocks, cache.blocks_per_sequence = 1;
    expect(CACHED(f, &cache, 2), "block_len=0");
    cache.block_len = 4;
    expect(CACHED(f, &cache, 2), "block_len=4 for max_kv_len=8");
    cache = good, cache.kv_len = (const int32_t *)0x10002;
    expect(CACHED(f, &cache, 2), "kv_len=0x10002");
    ck_assert_int_eq(CACHED(NULL, &good, 0), CUSHIM_OK);
}

SUITE() {
    return tests_run("attention");
}
