#include "cuda/symbol.h"

#include <string.h>

#include "tests/unit/suite.h"

TEST(each_symbol_has_its_exported_name) {
    ck_assert_str_eq(cushim_cuda_symbol_name(CUSHIM_SYMBOL_cuMemAlloc_v2), "cuMemAlloc_v2");
    ck_assert_str_eq(cushim_cuda_symbol_name(CUSHIM_SYMBOL_cudaMalloc), "cudaMalloc");
    ck_assert_str_eq(cushim_cuda_symbol_name(CUSHIM_SYMBOL_cuGetProcAddress), "cuGetProcAddress");
}

TEST(no_symbol_is_listed_twice) {
    for (int a = 0; a < CUSHIM_N_SYMBOLS; a++) {
        ck_assert_ptr_nonnull(cushim_cuda_symbol_name((enum cushim_cuda_symbol)a));
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(cushim_cuda_symbol_name((enum cushim_cuda_symbol)a),
                             cushim_cuda_symbol_name((enum cushim_cuda_symbol)b));
    }
}

TEST(a_number_outside_the_list_has_a_name_too) {
    ck_assert_str_eq(cushim_cuda_symbol_name(CUSHIM_N_SYMBOLS), "?");
    ck_assert_str_eq(cushim_cuda_symbol_name((enum cushim_cuda_symbol) - 1), "?");
}

SUITE() {
    return tests_run("row");
}
