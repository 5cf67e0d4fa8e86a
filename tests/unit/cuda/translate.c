#include "cuda/translate.h"

#include "tests/unit/suite.h"

TEST(only_success_is_ok) {
    for (int number = -10; number < 1200; number++)
        ck_assert_int_eq(cushim_status_from_cu((CUresult)number) == CUSHIM_OK, number == 0);
}

TEST(the_codes_that_a_heap_acts_on_have_the_right_status) {
    static const struct {
        CUresult result;
        enum cushim_status status;
    } rows[] = {{CUDA_ERROR_INVALID_VALUE, CUSHIM_INVALID},
                {CUDA_ERROR_OUT_OF_MEMORY, CUSHIM_NOMEM},
                {CUDA_ERROR_DEINITIALIZED, CUSHIM_DEADCONTEXT},
                {CUDA_ERROR_INVALID_CONTEXT, CUSHIM_NOCONTEXT},
                {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUSHIM_DEADCONTEXT},
                {CUDA_ERROR_NOT_READY, CUSHIM_NOTREADY},
                {CUDA_ERROR_ILLEGAL_ADDRESS, CUSHIM_FAULT},
                {CUDA_ERROR_LAUNCH_FAILED, CUSHIM_LAUNCH},
                {CUDA_ERROR_LAUNCH_TIMEOUT, CUSHIM_LAUNCH},
                {CUDA_ERROR_ECC_UNCORRECTABLE, CUSHIM_ECC},
                {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUSHIM_CAPTURE},
                {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUSHIM_CAPTURE},
                {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUSHIM_CAPTURE},
                {CUDA_ERROR_NOT_PERMITTED, CUSHIM_NOTSUPPORTED},
                {CUDA_ERROR_UNKNOWN, CUSHIM_UNKNOWN}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_int_eq(cushim_status_from_cu(rows[i].result), rows[i].status);
}

TEST(an_unlisted_code_is_a_system_error) {
    ck_assert_int_eq(cushim_status_from_cu((CUresult)12345), CUSHIM_SYSTEM);
    ck_assert_int_eq(cushim_status_from_cu((CUresult)-1), CUSHIM_SYSTEM);
}

SUITE() {
    return tests_run("translate");
}
