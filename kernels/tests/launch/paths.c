/*
 * What launchers choose on each kind of device.  The software device poses as each kind and judges
 * every launch.
 */
#include "kernels/tests/launch/launched.h"

static const char *const capabilities[] = {"75",  "80",  "86",  "89",  "90",
                                           "100", "103", "110", "120", "121"};
enum { N_CAPABILITIES = sizeof capabilities / sizeof *capabilities };

/* ---- the shapes of models ---- */

/* As many of the shapes as there is time for, different ones on each kind of device. */
static unsigned n_shapes;

static bool is_taken(void) {
    unsigned pct = suite_steps(100);
    return ++n_shapes * pct % 100 < pct;
}

static void run_products(bool is_aligned) {
    static const int64_t sizes[][2] = {{6144, 4096},   {4096, 4096},  {14336, 4096}, {4096, 14336},
                                       {8192, 28672},  {28672, 8192}, {100, 16384},  {5, 65536},
                                       {128256, 4096}, {1, 256},      {128256, 8192}};
    static const int64_t columns[] = {1, 2, 3, 4, 8, 9, 16, 32, 33, 64, 128, 512, 2048};
    void *f = place(is_aligned, 4), *h = place(is_aligned, 2), *w = place(is_aligned, 4);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t m = sizes[i][0], k = sizes[i][1];
        if (!is_taken())
            continue;
        ck_ok(cushim_gemv_q4k_f32(w, f, f, m, k, NULL));
        size_t n_bytes = cushim_gemv_q4k_scratch(2 * m, k);
        ck_ok(cushim_gemv_add_q4k_f32(w, f, f, f, m, k, f, n_bytes, NULL));
        ck_ok(cushim_gemv_swiglu_q4k_f32(w, f, f, f, 0, m, k, f, n_bytes, NULL));
        ck_ok(cushim_gemv_qkv_q4k_f32(w, f, f, f, f, f, f, f, f, 0, 2, 1, 128, k, 1000, 128, 128, f,
                                      cushim_gemv_q4k_scratch(512, k), NULL));
        ck_ok(cushim_gemv_f32(f, f, f, m, k, NULL));
        for (unsigned c = 0; c < sizeof columns / sizeof *columns; c++) {
            for (int has_scratch = 0; has_scratch < 2; has_scratch++) {
                size_t n_of_terms = has_scratch ? cushim_gemm_scratch(k, columns[c]) : 0;
                ck_ok(cushim_gemm_q4_0_f32(h, w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q8_0_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q8f_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q4k_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q5_0_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q5k_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
                ck_ok(cushim_gemm_q6k_f32(w, f, f, m, k, columns[c], f, n_of_terms, NULL));
            }
        }
    }
    ck_ok(cushim_gemm_batched_small_f32(f, f, f, 64, 64, 64, 4096, 4096, 4096, 1000, NULL));
}

static void run_attention(bool is_aligned) {
    static const int64_t heads[][2] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {32, 8}, {64, 8}, {12, 4}};
    static const int64_t lengths[] = {1, 128, 1024, 8192, 131072};
    void *f = place(is_aligned, 4), *half = place(is_aligned, 2);
    for (int64_t dim = 32; dim <= 288; dim += 32) {
        for (int64_t seq = 1; seq <= 8192; seq *= 8) {
            if (!is_taken())
                continue;
            ck_ok(cushim_attention_f32(f, f, f, f, 1, 32, seq, dim, false, NULL));
            ck_ok(cushim_attention_f32(f, f, f, f, 4, 32, seq, dim, true, NULL));
        }
        for (unsigned h = 0; h < sizeof heads / sizeof *heads; h++) {
            for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                if (!is_taken())
                    continue;
                int64_t n_q = heads[h][0], n_kv = heads[h][1], n = lengths[l];
                const struct cushim_kv_strides kv = {n_kv * n * dim, n * dim, dim};
                size_t n_bytes = cushim_attention_decode_f32_scratch(1, n_q, n_kv, dim, n);
                ck_ok(cushim_attention_decode_f32(f, f, f, NULL, f, 1, n_q, n_kv, dim, n, n, &kv,
                                                  NULL, 0, NULL));
                ck_ok(cushim_attention_decode_f32(f, f, f, NULL, f, 1, n_q, n_kv, dim, n, n, &kv, f,
                                                  n_bytes, NULL));
                const struct cushim_kv_cache cache = {
                    .k = half, .v = half, .strides = kv, .max_kv_len = n, .type = CUSHIM_KV_F16};
                for (int64_t n_queries = 1; n_queries <= 64; n_queries *= 4)
                    ck_ok(cushim_attention_cached_f32(f, &cache, NULL, NULL, f, 1, n_q, n_kv, dim,
                                                      n_queries, true, f, n_bytes, NULL));
            }
        }
    }
}

static void run_rows(bool is_aligned) {
    static const int64_t rows[] = {1, 8, 64, 300, 8192, 65536};
    void *f = place(is_aligned, 4), *h = place(is_aligned, 2), *e = place(is_aligned, 1);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int64_t n = 32; n <= 1 << 20; n *= 2) {
            if (!is_taken())
                continue;
            ck_ok(cushim_softmax_f32(f, f, rows[i], n, 1, NULL));
            ck_ok(cushim_softmax_f32(f, f, 1, n, rows[i], NULL));
            ck_ok(cushim_scaled_softmax_f16(h, h, 2, rows[i], n, 1, NULL));
            ck_ok(cushim_rms_norm_f32(f, f, f, f, 1e-5F, rows[i], n, NULL));
            ck_ok(cushim_add_rms_norm_f32(f, f, f, f, f, 1e-5F, rows[i], n, NULL));
            ck_ok(cushim_rms_norm_f16(h, h, h, 1e-5F, rows[i], n, NULL));
            ck_ok(cushim_rms_norm_e4m3_f16(e, h, h, 1, 1e-5F, rows[i], n, NULL));
            ck_ok(cushim_sum_axis_f32(f, f, rows[i], n, 1, NULL, 0, NULL));
            ck_ok(cushim_sum_axis_f32(f, f, 1, n, rows[i], NULL, 0, NULL));
            ck_ok(cushim_argmax_f32(f, place(true, 8), rows[i] * n, NULL, 0, NULL));
        }
    }
}

TEST(every_kind_of_device_launches_what_is_chosen_for_it, .n = N_CAPABILITIES) {
    launched_begin(capabilities[_i]);
    n_shapes = (unsigned)_i;
    for (int is_aligned = 0; is_aligned < 2; is_aligned++) {
        run_products(is_aligned);
        run_attention(is_aligned);
        run_rows(is_aligned);
    }
}

/* ---- paths by name ---- */

static const struct {
    const char *capability, *q4k, *q4k_long, *q8_0, *two, *attention, *added;
} paths[] = {
    {"86", "gemv_q4k_c1_wide", "gemv_q4k_c1_wide", "gemv_q8_0_c1_wide", "gemv_q8_0_c2_wide",
     "attention_split_small_128", "gemv_end_add"},
    {"90", "gemv_q4k_direct", "gemv_q4k_direct", "gemv_q8_0_direct", "gemv_q8_0_direct2",
     "attention_wgmma_128", "gemv_q4k_add"},
    {"100", "gemv_q4k_direct", "gemv_q4k_direct", "gemv_q8_0_direct", "gemv_q8_0_direct2",
     "attention_split_large_128", "gemv_q4k_add"},
    {"120", "gemv_q4k_direct", "gemv_q4k_c1_wide", "gemv_q8_0_c1_wide", "gemv_q8_0_c2_wide",
     "attention_split_small_128", "gemv_q4k_add"},
};

TEST(large_tiles_are_for_devices_with_their_shared_memory, .n = sizeof paths / sizeof *paths) {
    void *p = place(true, 4);
    launched_begin(paths[_i].capability);
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 4096, 4096, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].q4k);
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 8192, 28672, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].q4k_long);
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 14336, 4096, 1, NULL, 0, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].q8_0);
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 4096, 14336, 2, NULL, 0, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].two);
    ck_ok(cushim_attention_f32(p, p, p, p, 4, 32, 4096, 128, false, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].attention);
    ck_ok(cushim_gemv_add_q4k_f32(p, p, p, p, 4096, 4096, p, 1 << 20, NULL));
    ck_assert_str_eq(launched.kernel, paths[_i].added);
}

static CUresult say_no_clusters(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult result = SIM(cuDeviceGetAttribute)(value, attribute, device);
    if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        *value = 0;
    return result;
}

TEST(a_device_that_says_it_has_no_clusters_gets_none) {
    void *p = place(true, 4);
    launched_begin("90");
    atomic_store(&CUSHIM_DRIVER(cuDeviceGetAttribute), say_no_clusters);
    ck_ok(cushim_softmax_f32(p, p, 1, 1 << 20, 1, NULL));
    ck_assert_uint_eq(launched.cluster, 1);
    ck_ok(cushim_sum_axis_f32(p, p, 1, 1 << 20, 1, NULL, 0, NULL));
    ck_assert_uint_eq(launched.cluster, 1);
    ck_ok(cushim_gemv_f32(p, p, p, 4, 1 << 18, NULL));
    ck_assert_uint_eq(launched.cluster, 1);
    ck_ok(cushim_gemm_q4_0_f32(p, p, p, p, 4096, 14336, 8, NULL, 0, NULL));
    ck_assert_str_eq(launched.kernel, "gemv_q4_0_mma8");
    ck_assert_uint_eq(launched.cluster, 1);
}

TEST(a_device_of_12_0_has_clusters_of_up_to_8) {
    void *p = place(true, 4);
    launched_begin("120");
    ck_ok(cushim_rms_norm_f32(p, p, p, p, 1e-5F, 1, 65536, NULL));
    ck_assert_uint_gt(launched.cluster, 1);
    ck_assert_uint_le(launched.cluster, CUSHIM_PORTABLE_CLUSTER);
}

TEST(a_device_is_asked_once_for_its_facts) {
    void *p = place(true, 4);
    launched_begin("120");
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 4096, 4096, NULL));
    unsigned long n = n_calls("cuDeviceGetAttribute");
    ck_assert_uint_gt(n, 0);
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 4096, 4096, NULL));
    ck_ok(cushim_softmax_f32(p, p, 8, 4096, 1, NULL));
    ck_assert_uint_eq(n_calls("cuDeviceGetAttribute"), n);
}

int main(void) {
    return tests_run("paths");
}
