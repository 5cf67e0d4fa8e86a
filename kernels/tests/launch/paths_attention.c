/* What the launchers of attention with caches choose. */
#include "kernels/tests/launch/launched.h"

/* The kernels that attend to caches of 8 heads, for 32 of queries, with this part of the scratch.
 */
static const char *launched_for_caches(int64_t batch, int64_t n_queries, int64_t len,
                                       enum cushim_kv_type type, double part) {
    enum { DIM = 128, HEADS = 8 };
    void *p = place(true, 4);
    const struct cushim_kv_cache cache = {.k = p,
                                          .v = p,
                                          .strides = {.head = DIM, .position = HEADS * DIM},
                                          .max_kv_len = len,
                                          .type = type};
    size_t n_bytes =
        cushim_attention_cached_f32_scratch(batch, 4 * HEADS, HEADS, DIM, n_queries, len);
    launched_clear();
    ck_ok(cushim_attention_cached_f32(p, &cache, NULL, NULL, p, batch, 4 * HEADS, HEADS, DIM,
                                      n_queries, true, p, (size_t)((double)n_bytes * part), NULL));
    return all_launched;
}

/* One query, or a few, of some sequences, whose caches are long; if their rows are more than 128 of
 * a KV head, or more than 16 for each multiprocessor, a tile goes through each. */
TEST(a_long_cache_is_cut_for_few_rows) {
    static const struct {
        int64_t batch, n_queries, len;
        enum cushim_kv_type type;
        const char *launched;
    } of[] = {{1, 1, 32768, CUSHIM_KV_F32, "attention_decode_128_4 attention_decode_merge "},
              {1, 1, 32768, CUSHIM_KV_F16, "attention_decode_f16_128_4 attention_decode_merge "},
              {1, 8, 32768, CUSHIM_KV_BF16, "attention_decode_bf16_128_8 attention_decode_merge "},
              {1, 32, 32768, CUSHIM_KV_F32, "attention_decode_f32_128_8 attention_decode_merge "},
              {1, 32, 513, CUSHIM_KV_F32, "attention_decode_f32_128_8 attention_decode_merge "},
              {1, 32, 512, CUSHIM_KV_F32, "attention_decode_f32_128_8 "},
              {2, 32, 32768, CUSHIM_KV_F32, "attention_decode_f32_128_8 "},
              {1, 32, 32768, CUSHIM_KV_F16, "attention_decode_f16_128_8 "},
              {1, 16, 513, CUSHIM_KV_F16, "attention_decode_f16_128_8 attention_decode_merge "},
              {1, 16, 512, CUSHIM_KV_F16, "attention_decode_f16_128_8 "},
              {6, 9, 4096, CUSHIM_KV_F16, "attention_decode_f16_128_8 "},
              {1, 33, 32768, CUSHIM_KV_F16, "attention_cached_wgmma_f16_128 "},
              {1, 33, 32768, CUSHIM_KV_BF16, "attention_cached_wgmma_bf16_128 "},
              {1, 33, 32768, CUSHIM_KV_F32, "attention_cached_wgmma_f32_128 "},
              {6, 9, 32768, CUSHIM_KV_F16, "attention_decode_f16_128_8 attention_decode_merge "},
              {6, 9, 32768, CUSHIM_KV_F32, "attention_decode_f32_128_8 "},
              {7, 9, 32768, CUSHIM_KV_F16, "attention_cached_wgmma_f16_128 "},
              {7, 8, 32768, CUSHIM_KV_F16, "attention_decode_f16_128_8 attention_decode_merge "}};
    launched_begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++)
        ck_assert_str_eq(
            launched_for_caches(of[i].batch, of[i].n_queries, of[i].len, of[i].type, 1),
            of[i].launched);
}

/* A multiprocessor of 9.0 holds two blocks of eight rows of floats, one of 7.5 one. */
TEST(a_cache_is_cut_for_the_blocks_that_run_together, .n = 2) {
    launched_begin(_i ? "90" : "75");
    launched_for_caches(5, 2, 32768, CUSHIM_KV_F32, 1);
    ck_assert_int_eq(strstr(all_launched, "merge") != NULL, _i);
}

/* Blocks of half the warps if there are more than multiprocessors, of which a 9.0 has 132: three of
 * one if that leaves few idle at the end, or two, which have half of its 228 KB each. */
static const struct {
    const char *capability;
    int64_t batch;
    enum cushim_kv_type type;
    unsigned n_warps;
    bool is_of_two;
} of_many[] = {{"90", 16, CUSHIM_KV_F16, 8, false},  {"90", 17, CUSHIM_KV_F16, 4, true},
               {"90", 64, CUSHIM_KV_BF16, 4, true},  {"90", 48, CUSHIM_KV_BF16, 4, false},
               {"90", 256, CUSHIM_KV_F16, 4, false}, {"90", 64, CUSHIM_KV_F32, 8, false},
               {"86", 64, CUSHIM_KV_F16, 8, false},  {"75", 64, CUSHIM_KV_F16, 8, false}};

TEST(many_short_caches_are_read_by_blocks_of_half_the_warps,
     .n = sizeof of_many / sizeof *of_many) {
    launched_begin(of_many[_i].capability);
    launched_for_caches(of_many[_i].batch, 1, 500, of_many[_i].type, 0);
    ck_assert_uint_eq(launched.block, 32 * of_many[_i].n_warps);
    ck_assert_uint_eq(launched.shared_bytes > 76 * 1024, of_many[_i].is_of_two);
}

int main(void) {
    return tests_run("paths_attention");
}
