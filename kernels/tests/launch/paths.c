/*
 * What launchers choose on each kind of device.  The software device poses as each kind and judges
 * every launch; kernels do nothing here, so that shapes may be those of models.
 */
#include <stdio.h>

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

static const char *const capabilities[] = {"75",  "80",  "86",  "89",  "90",
                                           "100", "103", "110", "120", "121"};
enum { N_CAPABILITIES = sizeof capabilities / sizeof *capabilities };

/* ---- kernels that do nothing ---- */

static struct cushim_kernel_family *family_of(const void *image) {
    static struct cushim_kernel_family *const families[] = {
#define FAMILY(name) &cushim_family_##name,
#include "kernels/launch/families.def"
#undef FAMILY
    };
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->image == image)
            return families[i];
    }
    ck_abort_msg("an image of no family");
    return NULL;
}

/* In place of a fatbin, an image that names its kernels. */
static CUresult load_names(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned n_options, CUlibraryOption *library_options,
                           void **library_values, unsigned n_library_options) {
    static char text[CUSHIM_FAMILY_MOST_KERNELS * 80];
    const struct cushim_kernel_family *family = family_of(code);
    int n = snprintf(text, sizeof text, "%s\n", SIM_MODULE_IMAGE);
    for (unsigned i = 0; i < family->n_kernels; i++) {
        if (!family->kernels[i].name)
            continue;
        n += snprintf(text + n, sizeof text - (size_t)n, ".entry %s\n", family->kernels[i].name);
        ck_assert_int_lt(n, (int)sizeof text);
    }
    return SIM(cuLibraryLoadData)(library, text, options, values, n_options, library_options,
                                  library_values, n_library_options);
}

static char launched[128]; /* the name of the last kernel */
static char all_launched[2048];
static unsigned last_cluster, last_grid, last_block, last_shared;

static void keep(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes) {
    const char *name = "";
    ck_assert_int_eq(SIM(cuFuncGetName)(&name, function), CUDA_SUCCESS);
    snprintf(launched, sizeof launched, "%s", name);
    size_t n = strlen(all_launched);
    if (n + strlen(name) + 2 < sizeof all_launched)
        snprintf(all_launched + n, sizeof all_launched - n, "%s ", name);
    last_cluster = 1;
    last_grid = grid;
    last_block = block;
    last_shared = shared_bytes;
}

static CUresult look(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     CUstream stream, void **params, void **extra) {
    keep(function, grid_x, block_x, shared_bytes);
    return SIM(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                               shared_bytes, stream, params, extra);
}

static CUresult look_closer(const CUlaunchConfig *config, CUfunction function, void **params,
                            void **extra) {
    keep(function, config->gridDimX, config->blockDimX, config->sharedMemBytes);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            last_cluster = config->attrs[i].value.clusterDim.x;
    }
    return SIM(cuLaunchKernelEx)(config, function, params, extra);
}

/* In its own process, because a driver is of one kind. */
static void begin(const char *capability) {
    setenv("CUSHIM_SIM_CAPABILITY", capability, 1);
    fixture_force("90");
    fixture_context(0);
    ck_ok(cushim_driver_use("test"));
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), load_names);
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernel), look);
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernelEx), look_closer);
}

/* ---- the shapes of models ---- */

/* An address, aligned or off by one element; there is no memory. */
static void *place(bool is_aligned, size_t n_elem_bytes) {
    return (void *)(uintptr_t)((1ull << 40) + (is_aligned ? 0 : n_elem_bytes)); // NOLINT
}

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

static int runs_all(unsigned n) {
    begin(capabilities[n]);
    n_shapes = n;
    for (int is_aligned = 0; is_aligned < 2; is_aligned++) {
        run_products(is_aligned);
        run_attention(is_aligned);
        run_rows(is_aligned);
    }
    return 0;
}

TEST(every_kind_of_device_launches_what_is_chosen_for_it) {
    for (unsigned n = 0; n < N_CAPABILITIES; n++)
        ck_assert_msg(fixture_child(runs_all, n) == 0, "on %s", capabilities[n]);
}

/* ---- paths by name ---- */

/* A bit for each choice that is the expected one, from the first. */
static int chooses_by_shared_memory(unsigned n) {
    static const struct {
        const char *capability, *q4k, *q4k_long, *q8_0, *two, *attention, *added;
    } of[] = {
        {"86", "gemv_q4k_c1_wide", "gemv_q4k_c1_wide", "gemv_q8_0_c1_wide", "gemv_q8_0_c2_wide",
         "attention_split_small_128", "gemv_end_add"},
        {"90", "gemv_q4k_direct", "gemv_q4k_direct", "gemv_q8_0_direct", "gemv_q8_0_direct2",
         "attention_wgmma_128", "gemv_q4k_add"},
        {"100", "gemv_q4k_direct", "gemv_q4k_direct", "gemv_q8_0_direct", "gemv_q8_0_direct2",
         "attention_split_large_128", "gemv_q4k_add"},
        {"120", "gemv_q4k_direct", "gemv_q4k_c1_wide", "gemv_q8_0_c1_wide", "gemv_q8_0_c2_wide",
         "attention_split_small_128", "gemv_q4k_add"},
    };
    void *p = place(true, 4);
    int bits = 0;
    begin(of[n].capability);
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 4096, 4096, NULL));
    bits |= (strcmp(launched, of[n].q4k) == 0) << 0;
    ck_ok(cushim_gemv_q4k_f32(p, p, p, 8192, 28672, NULL));
    bits |= (strcmp(launched, of[n].q4k_long) == 0) << 1;
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 14336, 4096, 1, NULL, 0, NULL));
    bits |= (strcmp(launched, of[n].q8_0) == 0) << 2;
    ck_ok(cushim_attention_f32(p, p, p, p, 4, 32, 4096, 128, false, NULL));
    bits |= (strcmp(launched, of[n].attention) == 0) << 3;
    ck_ok(cushim_gemv_add_q4k_f32(p, p, p, p, 4096, 4096, p, 1 << 20, NULL));
    bits |= (strcmp(launched, of[n].added) == 0) << 4;
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 4096, 14336, 2, NULL, 0, NULL));
    bits |= (strcmp(launched, of[n].two) == 0) << 5;
    return bits;
}

TEST(large_tiles_are_for_devices_with_their_shared_memory) {
    for (unsigned n = 0; n < 4; n++)
        ck_assert_int_eq(fixture_child(chooses_by_shared_memory, n), 63);
}

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
    begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemv_swiglu_q4k_f32(p, p, p, p, 0, of[i].m, K, p,
                                         cushim_gemv_q4k_scratch(2 * of[i].m, K), NULL));
        ck_assert_str_eq(launched, "gemv_q4k_swiglu");
        ck_assert_uint_eq(last_grid, of[i].grid);
        ck_assert_uint_eq(last_block, of[i].block);
    }
    ck_ok(cushim_gemv_add_q4k_f32(p, p, p, p, K, 14336, p, 1 << 20, NULL));
    ck_assert_uint_eq(last_grid, SMS);
    ck_assert_uint_eq(last_cluster, 1);
    all_launched[0] = '\0'; /* no room for stages beside the digits */
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
              {4096, 4096, 17, "gemv_q4_0_wgmma32", 64, 4},
              {4096, 4096, 64, "gemv_q4_0_wgmma64", 64, 4}};
    void *p = place(true, 4);
    begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemm_q4_0_f32(p, p, p, p, of[i].m, of[i].k, of[i].n, NULL, 0, NULL));
        ck_assert_str_eq(launched, of[i].launched);
        ck_assert_uint_eq(last_grid, of[i].grid);
        ck_assert_uint_eq(last_cluster, of[i].cluster);
    }
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
    begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(of[i].of_format(p, p, p, ROWS, 4096, 2, NULL, 0, NULL));
        ck_assert_str_eq(launched, of[i].launched);
        ck_assert_uint_eq(last_grid, of[i].grid);
    }
}

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
    all_launched[0] = '\0';
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
    begin("90");
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++)
        ck_assert_str_eq(
            launched_for_caches(of[i].batch, of[i].n_queries, of[i].len, of[i].type, 1),
            of[i].launched);
}

/* A multiprocessor of 9.0 holds two blocks of eight rows of floats, one of 7.5 one. */
static int cuts_for_two_blocks(unsigned is_of_90) {
    begin(is_of_90 ? "90" : "75");
    return strstr(launched_for_caches(5, 2, 32768, CUSHIM_KV_F32, 1), "merge") ? 1 : 0;
}

TEST(a_cache_is_cut_for_the_blocks_that_run_together) {
    ck_assert_int_eq(fixture_child(cuts_for_two_blocks, true), 1);
    ck_assert_int_eq(fixture_child(cuts_for_two_blocks, false), 0);
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

static int reads_many(unsigned i) {
    begin(of_many[i].capability);
    launched_for_caches(of_many[i].batch, 1, 500, of_many[i].type, 0);
    ck_assert_uint_eq(last_block, 32 * of_many[i].n_warps);
    ck_assert_uint_eq(last_shared > 76 * 1024, of_many[i].is_of_two);
    return 0;
}

TEST(many_short_caches_are_read_by_blocks_of_half_the_warps) {
    for (unsigned i = 0; i < sizeof of_many / sizeof *of_many; i++)
        ck_assert_int_eq(fixture_child(reads_many, i), 0);
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
    begin("90");
    all_launched[0] = '\0';
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
    begin("90");
    all_launched[0] = '\0';
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

static CUresult say_no_clusters(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult result = SIM(cuDeviceGetAttribute)(value, attribute, device);
    if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        *value = 0;
    return result;
}

TEST(a_device_that_says_it_has_no_clusters_gets_none) {
    void *p = place(true, 4);
    begin("90");
    atomic_store(&CUSHIM_DRIVER(cuDeviceGetAttribute), say_no_clusters);
    ck_ok(cushim_softmax_f32(p, p, 1, 1 << 20, 1, NULL));
    ck_assert_uint_eq(last_cluster, 1);
    ck_ok(cushim_sum_axis_f32(p, p, 1, 1 << 20, 1, NULL, 0, NULL));
    ck_assert_uint_eq(last_cluster, 1);
    ck_ok(cushim_gemv_f32(p, p, p, 4, 1 << 18, NULL));
    ck_assert_uint_eq(last_cluster, 1);
    ck_ok(cushim_gemm_q4_0_f32(p, p, p, p, 4096, 14336, 8, NULL, 0, NULL));
    ck_assert_str_eq(launched, "gemv_q4_0_mma8");
    ck_assert_uint_eq(last_cluster, 1);
}

TEST(a_cluster_shares_slices_of_k_that_are_too_many_for_a_block) {
    static const struct {
        int64_t m, k;
        unsigned cluster, n_warps;
    } of[] = {{4096, 4096, 1, 16}, {4096, 4352, 2, 9},  {4096, 14336, 4, 14},
              {16, 32768, 8, 16},  {4096, 2048, 1, 16}, {4096, 256, 1, 4}};
    void *p = place(true, 4);
    begin("90");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ck_ok(cushim_gemm_q8_0_f32(p, p, p, of[i].m, of[i].k, 8, NULL, 0, NULL));
        ck_assert_str_eq(launched, "gemv_q8_0_slices");
        ck_assert_uint_eq(last_cluster, of[i].cluster);
        ck_assert_uint_eq(last_block, 32 * of[i].n_warps);
    }
    ck_ok(cushim_gemm_q8_0_f32(p, p, p, 4096, 33024, 8, NULL, 0, NULL));
    ck_assert_str_eq(launched, "gemv_q8_0_mma8");
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
    begin("90");
    ck_assert_uint_eq(cushim_gemm_scratch(4096, 8), 0);
    ck_assert_uint_eq(cushim_gemm_scratch(4096, -1), 0);
    ck_assert_uint_eq(cushim_gemm_scratch(4095, 9), 0);
    ck_assert_uint_eq(cushim_gemm_scratch((int64_t)1 << 62, 9), 0);
    ck_assert_uint_eq(cushim_gemm_scratch((int64_t)1 << 40, (int64_t)1 << 40), 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t n_bytes = cushim_gemm_scratch(4096, of[i].n);
        ck_assert_uint_ge(n_bytes, 4096 * 4 * (size_t)of[i].n);
        all_launched[0] = '\0';
        ck_ok(
            cushim_gemm_q4_0_f32(p, p, p, p, 14336, 4096, of[i].n, p, n_bytes - of[i].less, NULL));
        ck_assert_str_eq(all_launched, of[i].launched);
    }
    ck_assert_uint_eq(last_cluster, 1);
}

TEST(a_device_of_12_0_has_clusters_of_up_to_8) {
    void *p = place(true, 4);
    begin("120");
    ck_ok(cushim_rms_norm_f32(p, p, p, p, 1e-5F, 1, 65536, NULL));
    ck_assert_uint_gt(last_cluster, 1);
    ck_assert_uint_le(last_cluster, CUSHIM_PORTABLE_CLUSTER);
}

TEST(a_device_is_asked_once_for_its_facts) {
    void *p = place(true, 4);
    begin("120");
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
