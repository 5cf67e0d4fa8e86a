/* libkernels.so: products, attention and what depends on a position.  All sizes differ. */
#include <limits.h>
#include <string.h>

#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"
#include "kernels/tests/dropin/dropin_fixture.h"

enum { M = 5, K = 512, COLS = 3, BLOCK = 32, SUPER = 256 };

static uint64_t state = 0x9E3779B97F4A7C15;

static struct buffer random_bytes(size_t n) {
    uint8_t *bytes = malloc(n);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(suite_random(&state) >> 32);
    struct buffer buffer = fixture_put(bytes, n);
    free(bytes);
    return buffer;
}

/* Scales that make sums of about 1: half of 2^-8. */
static void set_scale(struct buffer *buffer, size_t at) {
    const uint16_t half = 0x1C00;
    memcpy((char *)buffer->host + at, &half, sizeof half);
}

TEST(q4_takes_its_nibbles_from_the_offset) {
    const size_t n_blocks = M * K / BLOCK, offset = (2 * n_blocks + 15) / 16 * 16 + 32;
    fixture_open();
    struct buffer draft = random_bytes(offset + 16 * n_blocks);
    for (size_t i = 0; i < n_blocks; i++)
        set_scale(&draft, 2 * i);
    struct buffer w = fixture_put(draft.host, draft.n_bytes), b = fixture_floats(K * COLS, -1, 1);
    struct buffer c = fixture_room(M * COLS * sizeof(float));
    ck_done(gemm_q4_f32(w.device, b.device, c.device, M, K, COLS, (int)offset, fixture_stream));
    cushim_gemm_q4_0_f32_ref(w.host, (uint8_t *)w.host + offset, b.host, c.host, M, K, COLS);
    fixture_assert_floats("gemm_q4_f32", &c);
}

TEST(q8_is_of_blocks_of_36_bytes) {
    const size_t n_blocks = M * K / BLOCK;
    const float scale = 0x1p-9f;
    fixture_open();
    struct buffer draft = random_bytes(36 * n_blocks);
    for (size_t i = 0; i < n_blocks; i++)
        memcpy((char *)draft.host + 36 * i, &scale, sizeof scale);
    struct buffer w = fixture_put(draft.host, draft.n_bytes), b = fixture_floats(K * COLS, -1, 1);
    struct buffer c = fixture_room(M * COLS * sizeof(float));
    ck_done(gemm_q8_f32(w.device, b.device, c.device, M, K, COLS, fixture_stream));
    cushim_gemm_q8f_f32_ref(w.host, b.host, c.host, M, K, COLS);
    fixture_assert_floats("gemm_q8_f32", &c);
}

TEST(q4k_is_multiplied_and_decoded) {
    const size_t n_blocks = M * K / SUPER;
    fixture_open();
    struct buffer draft = random_bytes(144 * n_blocks);
    for (size_t i = 0; i < n_blocks; i++) {
        set_scale(&draft, 144 * i);
        set_scale(&draft, 144 * i + 2);
    }
    struct buffer w = fixture_put(draft.host, draft.n_bytes), x = fixture_floats(K, -0.1, 0.1);
    struct buffer y = fixture_room(M * sizeof(float)), all = fixture_room(M * K * sizeof(float));
    int (*const functions[])(const void *, const float *, float *, int, int,
                             cudaStream_t) = {gemv_q4k_f32, gemv_q4k_dp4a_f32, gemv_q4k_sm121_f32};
    cushim_gemv_q4k_f32_ref(w.host, x.host, y.host, M, K);
    for (int i = 0; i < 3; i++) {
        struct buffer own = fixture_room(y.n_bytes);
        memcpy(own.host, y.host, y.n_bytes);
        ck_done(functions[i](w.device, x.device, own.device, M, K, fixture_stream));
        fixture_assert_floats("gemv_q4k_f32 and its counterparts", &own);
    }
    ck_assert_int_eq(gemv_q4k_check_sm121(), 0);
    ck_done(dequant_q4k_f32(w.device, all.device, M, K, fixture_stream));
    cushim_dequant_q4k_f32_ref(w.host, all.host, M, K);
    fixture_assert_bytes("dequant_q4k_f32", &all);
}

TEST(a_plain_matrix_is_multiplied_by_a_vector) {
    enum { N = 77 };
    fixture_open();
    struct buffer a = fixture_floats(M * N, -1, 1), x = fixture_floats(N, -1, 1);
    struct buffer y = fixture_room(M * sizeof(float));
    ck_done(launch_sgemv_m1(y.device, a.device, x.device, M, N, fixture_stream));
    cushim_gemv_f32_ref(a.host, x.host, y.host, M, N);
    fixture_assert_floats("launch_sgemv_m1", &y);
    struct buffer again = fixture_room(y.n_bytes);
    memcpy(again.host, y.host, y.n_bytes);
    ck_done(launch_gemv_warp_f32(again.device, a.device, x.device, M, N, fixture_stream));
    fixture_assert_floats("launch_gemv_warp_f32", &again);
    struct buffer halves = fixture_halves(M * N), column = fixture_halves(N);
    struct buffer small = fixture_room(M * sizeof(uint16_t));
    ck_done(launch_gemv_warp_f16(small.device, halves.device, column.device, M, N, fixture_stream));
    cushim_gemv_f16_ref(halves.host, column.host, small.host, M, N);
    fixture_assert_halves("launch_gemv_warp_f16", &small);
}

TEST(two_bits_are_multiplied) {
    enum { N = 77 };
    fixture_open();
    struct buffer w = random_bytes(M * ((N + 3) / 4)), x = fixture_floats(N, -1, 1);
    struct buffer y = fixture_room(M * sizeof(float));
    ck_done(ternary_gemv_f32(w.device, x.device, y.device, M, N, fixture_stream));
    cushim_gemv_ternary_f32_ref(w.host, x.host, y.host, M, N);
    fixture_assert_floats("ternary_gemv_f32", &y);
}

TEST(four_bits_are_multiplied_by_halves) {
    enum { N = 80 };
    fixture_open();
    struct buffer w = random_bytes(M * N / 2), scales = fixture_halves(M * N / 16);
    struct buffer x = fixture_halves(N), y = fixture_room(M * sizeof(float));
    ck_done(fp4_gemv_f16(w.device, scales.device, x.device, y.device, M, N, fixture_stream));
    cushim_gemv_e2m1_f16_f32_ref(w.host, scales.host, x.host, y.host, M, N);
    fixture_assert_floats("fp4_gemv_f16", &y);
    ck_assert_int_eq(
        fp4_gemv_f16(w.device, scales.device, x.device, y.device, M, 8, fixture_stream), 1);
}

TEST(codes_are_multiplied_to_halves) {
    enum { N = 7, DEEP = 45 };
    fixture_open();
    struct buffer a = random_bytes(M * DEEP), b = random_bytes(DEEP * N);
    struct buffer c = fixture_room(M * N * sizeof(uint16_t));
    for (size_t i = 0; i < a.n_bytes; i++) /* at most 15 / 8 */
        ((uint8_t *)a.host)[i] &= 0xBF;
    a = fixture_put(a.host, a.n_bytes);
    for (size_t i = 0; i < b.n_bytes; i++)
        ((uint8_t *)b.host)[i] &= 0xBF;
    b = fixture_put(b.host, b.n_bytes);
    ck_done(launch_fp8_gemm(a.device, b.device, c.device, M, DEEP, N, bits_of(0.5f), bits_of(-2),
                            fixture_stream));
    cushim_gemm_e4m3_f16_ref(a.host, b.host, c.host, 0.5f, -2, M, N, DEEP);
    fixture_assert_halves("launch_fp8_gemm", &c);
}

TEST(small_products_come_in_batches) {
    enum { m = 3, n = 5, k = 7, BATCH = 4, SA = 25, SB = 0, SC = 17 };
    fixture_open();
    struct buffer a = fixture_floats(SA * BATCH, -1, 1), b = fixture_floats(k * n, -1, 1);
    struct buffer c = fixture_room(SC * BATCH * sizeof(float));
#define RUN(m, n, k, batch)                                                                        \
    tiny_batched_gemm_f32(a.device, b.device, c.device, m, n, k, SA, SB, SC, batch, fixture_stream)
    ck_done(RUN(m, n, k, BATCH));
    cushim_gemm_batched_small_f32_ref(a.host, b.host, c.host, m, n, k, SA, SB, SC, BATCH);
    fixture_assert_floats("tiny_batched_gemm_f32", &c);
    ck_assert_int_eq(RUN(0, n, k, BATCH), 1);
    ck_assert_int_eq(RUN(m, 65, k, BATCH), 1);
    ck_assert_int_eq(RUN(m, n, 0, BATCH), 1);
    ck_assert_int_eq(RUN(m, n, -1, BATCH), 1);
    ck_assert_int_eq(RUN(m, n, k, 0), 1);
    fixture_assert_floats("tiny_batched_gemm_f32, refused", &c);
}

/* ---- attention ---- */

TEST(attention_matches_its_reference) {
    enum { BATCH = 2, HEADS = 3, SEQ = 5, HEAD_DIM = 12, N = BATCH * HEADS * SEQ * HEAD_DIM };
    fixture_open();
    struct buffer q = fixture_floats(N, -1, 1), k = fixture_floats(N, -1, 1),
                  v = fixture_floats(N, -1, 1);
    struct buffer o = fixture_room(N * sizeof(float));
    for (int causal = 0; causal <= 2; causal++) {
        ck_done(flash_attention_forward_f32(q.device, k.device, v.device, o.device, BATCH, HEADS,
                                            SEQ, HEAD_DIM, causal, fixture_stream));
        cushim_attention_f32_ref(q.host, k.host, v.host, o.host, BATCH, HEADS, SEQ, HEAD_DIM,
                                 causal != 0);
        fixture_assert_floats("flash_attention_forward_f32", &o);
        struct buffer again = fixture_room(o.n_bytes);
        memcpy(again.host, o.host, o.n_bytes);
        ck_done(flash_attention2_forward_f32(q.device, k.device, v.device, again.device, BATCH,
                                             HEADS, SEQ, HEAD_DIM, causal, fixture_stream));
        fixture_assert_floats("flash_attention2_forward_f32", &again);
    }
}

enum { BATCH = 2, Q_HEADS = 6, KV_HEADS = 2, HEAD_DIM = 12, LONGEST = 9 };
enum { N_Q = BATCH * Q_HEADS * HEAD_DIM, N_KV = BATCH * LONGEST * KV_HEADS * HEAD_DIM };

static struct buffer q, k, v, o;

static int decode(int num_bh, int kv_len, const int *kv_len_ptr, int num_q_heads) {
    return flash_attention_decode_f32(q.device, k.device, v.device, o.device, num_bh, LONGEST,
                                      HEAD_DIM, kv_len, kv_len_ptr, num_q_heads, KV_HEADS,
                                      fixture_stream);
}

static void assert_decoded(int length) {
    const struct cushim_kv_strides strides = {LONGEST * KV_HEADS * HEAD_DIM, HEAD_DIM,
                                              KV_HEADS * HEAD_DIM};
    cushim_attention_decode_f32_ref(q.host, k.host, v.host, NULL, o.host, BATCH, Q_HEADS, KV_HEADS,
                                    HEAD_DIM, length, LONGEST, &strides);
    fixture_assert_floats("flash_attention_decode_f32", &o);
}

TEST(a_decoded_token_sees_the_heads_packed_at_each_position) {
    fixture_open();
    q = fixture_floats(N_Q, -1, 1);
    k = fixture_floats(N_KV, -1, 1);
    v = fixture_floats(N_KV, -1, 1);
    o = fixture_room(N_Q * sizeof(float));
    struct buffer length = fixture_put((int[]){5}, sizeof(int));
    ck_done(decode(BATCH * Q_HEADS, 7, NULL, Q_HEADS));
    assert_decoded(7);
    ck_done(decode(BATCH * Q_HEADS, 7, length.device, Q_HEADS));
    assert_decoded(5);
    ck_done(decode(BATCH * Q_HEADS, -3, NULL, Q_HEADS));
    assert_decoded(0);
    ck_assert_int_eq(decode(BATCH * Q_HEADS + 1, 7, NULL, Q_HEADS), 1);
    ck_assert_int_eq(decode(BATCH * Q_HEADS, 7, NULL, 0), 1);
    ck_assert_int_eq(decode(BATCH * Q_HEADS, 7, NULL, -1), 1);
    ck_assert_int_eq(decode(0, 7, NULL, Q_HEADS), 0);
}

/* A length of 70 positions has four chunks of 20, and 33 have fewer than there is room for. */
TEST(a_decoded_token_may_have_room_for_parts) {
    enum { LONG = 100, CHUNK = 20, N_CHUNKS = 4, ROW = KV_HEADS * HEAD_DIM };
    const struct cushim_kv_strides strides = {LONG * ROW, HEAD_DIM, ROW};
    fixture_open();
    q = fixture_floats(N_Q, -1, 1);
    k = fixture_floats(BATCH * LONG * ROW, -1, 1);
    v = fixture_floats(BATCH * LONG * ROW, -1, 1);
    struct buffer length = fixture_put((int[]){33}, sizeof(int));
    struct buffer parts = fixture_room(sizeof(float) * N_Q * N_CHUNKS);
#define SPLIT(kv_len_ptr, chunk)                                                                   \
    flash_decode_splitkv_f32(q.device, k.device, v.device, o.device, parts.device, NULL,           \
                             BATCH *Q_HEADS, LONG, HEAD_DIM, 70, kv_len_ptr, Q_HEADS, KV_HEADS,    \
                             chunk, fixture_stream)
    for (int i = 0; i < 3; i++) {
        o = fixture_room(N_Q * sizeof(float));
        ck_done(i == 2 ? flash_attention2_decode_f32(q.device, k.device, v.device, o.device,
                                                     BATCH * Q_HEADS, LONG, HEAD_DIM, 70, NULL,
                                                     Q_HEADS, KV_HEADS, fixture_stream)
                       : SPLIT(i ? length.device : NULL, CHUNK));
        cushim_attention_decode_f32_ref(q.host, k.host, v.host, NULL, o.host, BATCH, Q_HEADS,
                                        KV_HEADS, HEAD_DIM, i == 1 ? 33 : 70, LONG, &strides);
        fixture_assert_floats("decoded with room for parts", &o);
    }
    ck_assert_int_eq(SPLIT(NULL, -1), 1);
}

TEST(a_token_attends_to_blocks_anywhere) {
    enum {
        LEN = 4,
        N_BLOCKS = 3,
        SEQ = 10,
        ROW = KV_HEADS * HEAD_DIM,
        N_PLACES = BATCH * N_BLOCKS
    };
    static const int places[N_PLACES] = {5, 0, 3, 1, 4, 2};
    const struct cushim_kv_strides strides = {N_BLOCKS * LEN * ROW, HEAD_DIM, ROW};
    const float *of_k[N_PLACES], *of_v[N_PLACES];
    fixture_open();
    q = fixture_floats(N_Q, -1, 1);
    k = fixture_floats(N_PLACES * LEN * ROW, -1, 1); /* in the order of the sequences */
    v = fixture_floats(N_PLACES * LEN * ROW, -1, 1);
    o = fixture_room(N_Q * sizeof(float));
    for (int i = 0; i < N_PLACES; i++) {
        of_k[places[i]] = (const float *)k.device + i * LEN * ROW;
        of_v[places[i]] = (const float *)v.device + i * LEN * ROW;
    }
    struct buffer indices = fixture_put(places, sizeof places), ks = fixture_put(of_k, sizeof of_k),
                  vs = fixture_put(of_v, sizeof of_v);
#define PAGED(seq_len, block_size)                                                                 \
    paged_attention_forward_f32(q.device, o.device, ks.device, vs.device, indices.device, seq_len, \
                                block_size, HEAD_DIM, Q_HEADS, KV_HEADS, BATCH, fixture_stream)
    ck_done(PAGED(SEQ, LEN));
    cushim_attention_decode_f32_ref(q.host, k.host, v.host, NULL, o.host, BATCH, Q_HEADS, KV_HEADS,
                                    HEAD_DIM, SEQ, N_BLOCKS * LEN, &strides);
    fixture_assert_floats("paged_attention_forward_f32", &o);
    ck_assert_int_eq(PAGED(SEQ, 0), 1);
    ck_assert_int_eq(PAGED(-1, LEN), 1);
}

/* Two sequences of 3 and 5 tokens, each like a batch of one whose heads are side by side. */
TEST(packed_sequences_do_not_see_each_other) {
    enum { TOKENS = 8, ROW = KV_HEADS * HEAD_DIM, Q_ROW = Q_HEADS * HEAD_DIM };
    static const int lengths[] = {3, 5}, begins[] = {0, 3};
    const struct cushim_kv_strides strides = {0, HEAD_DIM, ROW};
    fixture_open();
    q = fixture_floats(TOKENS * Q_ROW, -1, 1);
    k = fixture_floats(TOKENS * ROW, -1, 1);
    v = fixture_floats(TOKENS * ROW, -1, 1);
    o = fixture_room(TOKENS * Q_ROW * sizeof(float));
    struct buffer of_lengths = fixture_put(lengths, sizeof lengths),
                  of_begins = fixture_put(begins, sizeof begins);
    ck_done(ragged_attention_forward_f32(q.device, k.device, v.device, o.device, of_lengths.device,
                                         of_begins.device, 2, Q_HEADS, KV_HEADS, HEAD_DIM,
                                         fixture_stream));
    for (int i = 0; i < TOKENS; i++) {
        int b = i >= begins[1];
        cushim_attention_decode_f32_ref(
            (float *)q.host + i * Q_ROW, (float *)k.host + begins[b] * ROW,
            (float *)v.host + begins[b] * ROW, NULL, (float *)o.host + i * Q_ROW, 1, Q_HEADS,
            KV_HEADS, HEAD_DIM, lengths[b], lengths[b], &strides);
    }
    fixture_assert_floats("ragged_attention_forward_f32", &o);
    ck_assert_int_eq(ragged_attention_forward_f32(q.device, k.device, v.device, o.device, NULL,
                                                  of_begins.device, 2, Q_HEADS, KV_HEADS, HEAD_DIM,
                                                  fixture_stream),
                     1);
}

TEST(names_without_a_meaning_are_refused) {
    int (*const refused[])(void) = {iq_dequant_2xxs_f32, iq_dequant_3s_f32, iq_dequant_nl_f32,
                                    kv_dequant_q3_f32,   kv_dequant_q4_f32, nsa_attention_f32};
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_assert_int_eq(refused[i](), 801);
}

/* ---- position ---- */

TEST(a_counter_moves_what_follows_it) {
    enum { DIM = 21, LINES = 4, HALF_ROTARY = 5 };
    fixture_open();
    struct buffer counter = fixture_put((int[]){1}, sizeof(int));
    struct buffer src = fixture_floats(DIM, -1, 1), dst = fixture_room(DIM * LINES * sizeof(float));
    struct buffer halves = fixture_room(DIM * LINES * sizeof(uint16_t));
    struct buffer cosines = fixture_floats(LINES * HALF_ROTARY, -1, 1);
    struct buffer sines = fixture_floats(LINES * HALF_ROTARY, -1, 1);
    struct buffer cos_out = fixture_room(HALF_ROTARY * sizeof(float));
    struct buffer sin_out = fixture_room(HALF_ROTARY * sizeof(float));
    int *position = counter.host;
    ck_done(launch_increment_counter(counter.device, 2, fixture_stream));
    *position = 3;
    fixture_assert_bytes("launch_increment_counter", &counter);
    ck_done(
        launch_offset_memcpy(dst.device, src.device, counter.device, DIM, LINES, fixture_stream));
    cushim_offset_memcpy_f32_ref(src.host, position, dst.host, DIM, LINES);
    fixture_assert_bytes("launch_offset_memcpy", &dst);
    ck_done(launch_offset_memcpy_fp16(halves.device, src.device, counter.device, DIM, LINES,
                                      fixture_stream));
    cushim_offset_memcpy_f32_f16_ref(src.host, position, halves.host, DIM, LINES);
    fixture_assert_bytes("launch_offset_memcpy_fp16", &halves);
    ck_done(launch_rope_select(cosines.device, sines.device, cos_out.device, sin_out.device,
                               counter.device, HALF_ROTARY, fixture_stream));
    memcpy(cos_out.host, (float *)cosines.host + 3 * HALF_ROTARY, cos_out.n_bytes);
    memcpy(sin_out.host, (float *)sines.host + 3 * HALF_ROTARY, sin_out.n_bytes);
    fixture_assert_bytes("cosines", &cos_out);
    fixture_assert_bytes("sines", &sin_out);
    ck_done(launch_reset_counter(counter.device, INT_MIN, fixture_stream));
    *position = INT_MIN;
    fixture_assert_bytes("launch_reset_counter", &counter);
    ck_done(launch_rope_select(sines.device, cosines.device, cos_out.device, sin_out.device,
                               counter.device, HALF_ROTARY, fixture_stream));
    ck_done(launch_offset_memcpy(dst.device, cosines.device, counter.device, DIM - 1, LINES,
                                 fixture_stream));
    fixture_assert_bytes("cosines, before the table", &cos_out);
    fixture_assert_bytes("launch_offset_memcpy, before the table", &dst);
}

int main(void) {
    return tests_run("dropin_products");
}
