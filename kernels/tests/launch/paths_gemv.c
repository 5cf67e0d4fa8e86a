/* What the launchers of products with quantised matrices choose, and those of a decoder. */
#include "kernels/tests/launch/launched.h"

TEST(a_product_of_q4k_has_one_block_per_multiprocessor) {
    enum { SMS = 132, K = 4096, TILE_PAIRS = 8 };
    static const struct {
        int64_t m;
        unsigned grid, block;
    } of[] = {
        {14336, SMS, 512},
        {SMS * TILE_PAIRS, SMS, 512},
        {SMS * TILE_PAIRS - TILE_PAIRS, SMS - 1, 512},
    };
    void *p = place(true, 4);
    launched_begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemv_swiglu_q4k_f32(p, p, p, p, 0, of[i].m, K, p,
                                         cushim_gemv_q4k_scratch(2 * of[i].m, K), NULL));
        ck_assert_str_eq(launched.kernel, "gemv_q4k_swiglu");
        ck_assert_uint_eq(launched.grid, of[i].grid);
        ck_assert_uint_eq(launched.block, of[i].block);
    }
    ck_ok(cushim_gemv_add_q4k_f32(p, p, p, p, K, 14336, p, 1 << 20, NULL));
    ck_assert_uint_eq(launched.grid, SMS);
    ck_assert_uint_eq(launched.cluster, 1);
    launched_clear(); /* no room for stages beside the digits */
    ck_ok(cushim_gemv_add_q4k_f32(p, p, p, p, 8192, 28672, p, 1 << 20, NULL));
    ck_assert_str_eq(all_launched, "gemv_q4k_direct gemv_end_add ");
}

/* Eight columns have half of the blocks each, and clusters are as many as run at the same time. */
TEST(a_matrix_of_few_rows_has_slices_of_sixteen_columns) {
    static const struct {
        int64_t m, k, n;
        const char *launched;
        unsigned grid, cluster;
    } of[] = {{4096, 4096, 16, "gemv_q4_0_slices", 66, 1},
              {4096, 14336, 16, "gemv_q4_0_slices", 56, 4},
              {14336, 4096, 16, "gemv_q4_0_wgmma32", 112, 2},
              {4096, 4096, 17, "gemv_q4_0_wgmma32", 96, 6},
              {4096, 4096, 64, "gemv_q4_0_wgmma64", 96, 6}};
    void *p = place(true, 4);
    launched_begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemm_q4_0_f32(p, p, p, p, of[i].m, of[i].k, of[i].n, NULL, 0, NULL));
        ck_assert_str_eq(launched.kernel, of[i].launched);
        ck_assert_uint_eq(launched.grid, of[i].grid);
        ck_assert_uint_eq(launched.cluster, of[i].cluster);
    }
    launched_clear(); /* with scratch, rather than that four blocks share k */
    ck_ok(
        cushim_gemm_q4_0_f32(p, p, p, p, 4096, 14336, 16, p, cushim_gemm_scratch(14336, 16), NULL));
    ck_assert_str_eq(all_launched, "gemv_terms gemv_q4_0_wgmma32_of_terms ");
}

/* A block has no room for the sums of all its tiles, so there are more blocks, as many for each
 * multiprocessor. */
TEST(two_columns_of_many_rows_have_as_many_blocks_on_each_multiprocessor) {
    typedef enum cushim_status gemm(const void *w, const float *b, float *c, int64_t m, int64_t k,
                                    int64_t n, void *scratch, size_t scratch_bytes,
                                    struct CUstream_st *stream);
    enum { SMS = 132, ROWS = 128256 };
    static const struct {
        gemm *of_format;
        const char *launched;
        unsigned grid;
    } of[] = {{cushim_gemm_q4k_f32, "gemv_q4k_direct2", 2 * SMS},
              {cushim_gemm_q5k_f32, "gemv_q5k_direct2", 2 * SMS},
              {cushim_gemm_q5_0_f32, "gemv_q5_0_direct2", 2 * SMS},
              {cushim_gemm_q6k_f32, "gemv_q6k_direct2", 3 * SMS},
              {cushim_gemm_q8_0_f32, "gemv_q8_0_direct2", 5 * SMS}};
    void *p = place(true, 4);
    launched_begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(of[i].of_format(p, p, p, ROWS, 4096, 2, NULL, 0, NULL));
        ck_assert_str_eq(launched.kernel, of[i].launched);
        ck_assert_uint_eq(launched.grid, of[i].grid);
    }
}

/* A block alone has room for the sums of few tiles, and would form the digits in 14 rounds. */
TEST(two_columns_of_long_rows_share_k_if_that_saves_rounds) {
    enum { SMS = 132, ROWS = 28672 };
    void *p = place(true, 4);
    launched_begin("90");
    ck_ok(cushim_gemm_q6k_f32(p, p, p, ROWS, 8192, 2, NULL, 0, NULL));
    ck_assert_str_eq(launched.kernel, "gemv_q6k_direct2");
    ck_assert_uint_eq(launched.grid, 2 * SMS);
    ck_assert_uint_eq(launched.cluster, 2);
    ck_ok(cushim_gemm_q6k_f32(p, p, p, ROWS, 4096, 2, NULL, 0, NULL)); /* too few steps for two */
    ck_assert_uint_eq(launched.cluster, 1);
}

/* Rows of q6k have 210 bytes for 256 values, so they rarely begin at multiples of 16. */
TEST(rows_of_q6k_may_begin_at_even_places) {
    static const struct {
        int64_t m, n;
        const char *launched;
    } of[] = {{13824, 1, "gemv_q6k_direct"}, {13824, 2, "gemv_q6k_direct2"},
              {13824, 8, "gemv_q6k_slices"}, {13824, 17, "gemv_q6k_wgmma32"},
              {13821, 1, "gemv_q6k_row"},    {13821, 2, "gemv_q6k_mma8"}};
    void *p = place(true, 4);
    launched_begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemm_q6k_f32(p, p, p, of[i].m, 5120, of[i].n, NULL, 0, NULL));
        ck_assert_str_eq(launched.kernel, of[i].launched);
    }
}

TEST(a_cluster_shares_slices_of_k_that_are_too_many_for_a_block) {
    static const struct {
        int64_t m, k;
        unsigned cluster, n_warps;
    } of[] = {{4096, 4096, 1, 16}, {4096, 4352, 2, 9},  {4096, 14336, 4, 14},
              {16, 32768, 8, 16},  {4096, 2048, 1, 16}, {4096, 256, 1, 4}};
    void *p = place(true, 4);
    launched_begin("90");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemm_q8_0_f32(p, p, p, of[i].m, of[i].k, 8, NULL, 0, NULL));
        ck_assert_str_eq(launched.kernel, "gemv_q8_0_slices");
        ck_assert_uint_eq(launched.cluster, of[i].cluster);
        ck_assert_uint_eq(launched.block, 32 * of[i].n_warps);
    }
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 4096, 33024, 8, NULL, 0, NULL));
    ck_assert_str_eq(launched.kernel, "gemv_q8_0_mma8");
}

TEST(terms_are_made_ahead_if_there_is_scratch) {
    static const struct {
        int64_t n;
        size_t less; /* than what helps */
        const char *launched;
    } of[] = {{9, 0, "gemv_terms gemv_q4_0_wgmma32_of_terms "},
              {33, 0, "gemv_terms gemv_q4_0_wgmma64_of_terms "},
              {2048, 0, "gemv_terms gemv_q4_0_wgmma64_of_terms "},
              {32, 1, "gemv_q4_0_wgmma32 "},
              {2048, 1, "gemv_q4_0_wgmma64 "}};
    void *p = place(true, 4);
    launched_begin("90");
    ck_assert_uint_eq(cushim_gemm_scratch(4096, 8), 0);
    ck_assert_uint_eq(cushim_gemm_scratch(4096, -1), 0);
    ck_assert_uint_eq(cushim_gemm_scratch(4095, 9), 0);
    ck_assert_uint_eq(cushim_gemm_scratch((int64_t)1 << 62, 9), 0);
    ck_assert_uint_eq(cushim_gemm_scratch((int64_t)1 << 40, (int64_t)1 << 40), 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t n_bytes = cushim_gemm_scratch(4096, of[i].n);
        ck_assert_uint_ge(n_bytes, 4096 * 4 * (size_t)of[i].n);
        launched_clear();
        ck_ok(
            cushim_gemm_q4_0_f32(p, p, p, p, 14336, 4096, of[i].n, p, n_bytes - of[i].less, NULL));
        ck_assert_str_eq(all_launched, of[i].launched);
    }
    ck_assert_uint_eq(launched.cluster, 1);
}

static struct cushim_decoder_layer layer_of_q4k(void *p) {
    struct cushim_weights w = {.format = CUSHIM_FORMAT_Q4K, .w = p};
    return (struct cushim_decoder_layer){.qkv = {w},
                                         .o = w,
                                         .gate_up = {w},
                                         .down = w,
                                         .attention_norm = p,
                                         .ff_norm = p,
                                         .keys = p,
                                         .values = p};
}

/* Work queued before may write weights; a decoder's own kernels do not. */
TEST(a_decoder_takes_weights_early_except_in_its_first_product) {
    void *p = place(true, 4);
    const struct cushim_decoder_layer layer = layer_of_q4k(p);
    const struct cushim_decoder_layer layers[] = {layer, layer};
    const struct cushim_decoder decoder = {.n_layers = 2,
                                           .hidden = 4096,
                                           .ff = 14336,
                                           .n_q_heads = 32,
                                           .n_kv_heads = 8,
                                           .head_dim = 128,
                                           .max_len = 100,
                                           .position_stride = 2048,
                                           .head_stride = 128,
                                           .layers = layers,
                                           .cos_table = p,
                                           .sin_table = p};
    launched_begin("90");
    launched_clear();
    ck_ok(cushim_decoder_f32(&decoder, p, p, p, p, cushim_decoder_f32_scratch(&decoder), NULL));
    ck_assert_str_eq(all_launched, "gemv_q4k_qkv attention_decode_128_4 gemv_q4k_add_early "
                                   "gemv_q4k_swiglu_early gemv_q4k_add_early "
                                   "gemv_q4k_qkv_early attention_decode_128_4 gemv_q4k_add_early "
                                   "gemv_q4k_swiglu_early gemv_q4k_add_early ");
}

/* A wrong layer follows right ones, and nothing is queued. */
TEST(a_decoder_checks_all_layers_first) {
    void *p = place(true, 4);
    struct cushim_decoder_layer layers[2] = {layer_of_q4k(p), layer_of_q4k(p)};
    struct cushim_decoder decoder = {.n_layers = 2,
                                     .hidden = 256,
                                     .ff = 256,
                                     .n_q_heads = 4,
                                     .n_kv_heads = 1,
                                     .head_dim = 64,
                                     .max_len = 10,
                                     .position_stride = 128,
                                     .head_stride = 64,
                                     .layers = layers,
                                     .cos_table = p,
                                     .sin_table = p};
    size_t n_bytes = cushim_decoder_f32_scratch(&decoder);
    launched_begin("90");
    launched_clear();
    layers[1].down.w = NULL;
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    layers[1].down.w = p;
    layers[1].down.format = (enum cushim_format)99;
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    layers[1].down.format = CUSHIM_FORMAT_Q4_0; /* without scales */
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    layers[1].down.format = CUSHIM_FORMAT_Q4K;
    layers[1].qkv[1] = layers[1].qkv[0]; /* keys without values */
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    layers[1].qkv[1].w = NULL;
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes - 1, NULL), CUSHIM_INVALID);
    decoder.n_q_heads = 6;
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    decoder.n_q_heads = 4;
    decoder.ff = 0;
    ck_assert_int_eq(cushim_decoder_f32(&decoder, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_decoder_f32(NULL, p, p, p, p, n_bytes, NULL), CUSHIM_INVALID);
    ck_assert_str_eq(all_launched, "");
    decoder.ff = 1LL << 40;
    ck_assert_uint_eq(cushim_decoder_f32_scratch(&decoder), 0);
    ck_assert_uint_eq(cushim_decoder_f32_scratch(NULL), 0);
    decoder.n_layers = 0;
    decoder.ff = 256;
    ck_ok(cushim_decoder_f32(&decoder, NULL, NULL, NULL, NULL, 0, NULL));
    ck_assert_str_eq(all_launched, "");
}

int main(void) {
    return tests_run("paths_gemv");
}
