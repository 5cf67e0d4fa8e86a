/*
 * Pitched memory: rows are as far apart as the software device alone puts them, and memory that was
 * freed serves again.
 */
#include <cuda_runtime_api.h>

#include "tests/preload/fixture/fixture.h"

static const size_t widths[] = {1, 100, 511, 512, 513, 4096, 100000, 1 << 20};
static const unsigned elements[] = {4, 8, 16};
enum { N_WIDTHS = sizeof widths / sizeof *widths, HEIGHT = 7, N_TURNS = 4 };

static bool is_pooled(void) {
    const char *pool = getenv("CUSHIM_POOL");
    return fixture_is_preloaded() && !(pool && strcmp(pool, "0") == 0);
}

static size_t pitch_of_driver(size_t width_bytes, unsigned element_bytes) {
    CUdeviceptr address;
    size_t pitch_bytes;
    __typeof__(&cuMemAllocPitch) alloc;
    __typeof__(&cuMemFree) give;
    *(void **)&alloc = fixture_entry_of_driver("cuMemAllocPitch_v2");
    *(void **)&give = fixture_entry_of_driver("cuMemFree_v2");
    OK(alloc(&address, &pitch_bytes, width_bytes, HEIGHT, element_bytes));
    OK(give(address));
    return pitch_bytes;
}

/* Each row has its own byte, and the first and the last of a row are its own. */
static void use(CUdeviceptr address, size_t width_bytes, size_t pitch_bytes) {
    unsigned char first, last;
    for (unsigned row = 0; row < HEIGHT; row++)
        OK(cuMemsetD8(address + row * pitch_bytes, (unsigned char)(row + 1), width_bytes));
    for (unsigned row = 0; row < HEIGHT; row++) {
        OK(cuMemcpyDtoH(&first, address + row * pitch_bytes, 1));
        OK(cuMemcpyDtoH(&last, address + row * pitch_bytes + width_bytes - 1, 1));
        ck_assert(first == row + 1 && last == row + 1);
    }
}

TEST(rows_are_as_far_apart_as_the_drivers, .n = N_WIDTHS) {
    fixture_use_device(0);
    for (unsigned element = 0; element < 3; element++) {
        size_t expected_bytes = pitch_of_driver(widths[_i], elements[element]);
        for (int turn = 0; turn < N_TURNS; turn++) {
            CUdeviceptr address;
            size_t pitch_bytes = 0;
            OK(cuMemAllocPitch(&address, &pitch_bytes, widths[_i], HEIGHT, elements[element]));
            ck_assert_uint_eq(pitch_bytes, expected_bytes);
            ck_assert_uint_eq(address % 512, 0);
            use(address, widths[_i], pitch_bytes);
            ANSWERS(cuMemsetD8(address, 0, HEIGHT * pitch_bytes + 1), CUDA_ERROR_INVALID_VALUE);
            OK(cuMemFree(address));
            ANSWERS(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
        }
    }
}

TEST(the_driver_is_asked_once_for_a_width_and_a_size_of_element) {
    CUdeviceptr address;
    size_t pitch_bytes;
    fixture_use_device(0);
    for (int turn = 0; turn < 10; turn++) {
        if (turn == 2)
            sim_calls_reset();
        OK(cuMemAllocPitch(&address, &pitch_bytes, 1920, 1080, 4));
        OK(cuMemFree(address));
    }
    ck_assert_uint_eq(sim_calls("cuMemAllocPitch_v2"), is_pooled() ? 0 : 8);
    if (is_pooled() && !getenv("CUSHIM_CHECK")) {
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 0);
        ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
    }
    OK(cuMemAllocPitch(&address, &pitch_bytes, 1920, 1080, 8)); /* which is another */
    OK(cuMemFree(address));
    ck_assert_uint_eq(sim_calls("cuMemAllocPitch_v2"), is_pooled() ? 1 : 9);
}

TEST(many_widths_have_their_own_pitch) {
    CUdeviceptr address;
    size_t pitch_bytes;
    fixture_use_device(0);
    for (size_t width_bytes = 1; width_bytes < 500000; width_bytes += 997) {
        for (int turn = 0; turn < 2; turn++) {
            OK(cuMemAllocPitch(&address, &pitch_bytes, width_bytes, HEIGHT, 4));
            ck_assert_uint_eq(pitch_bytes, (width_bytes + 511) / 512 * 512);
            OK(cuMemFree(address));
        }
    }
}

TEST(what_the_driver_refuses_is_refused) {
    CUdeviceptr address;
    size_t pitch_bytes;
    fixture_use_device(0);
    for (int turn = 0; turn < 2; turn++) {
        OK(cuMemAllocPitch(&address, &pitch_bytes, 100, 10, 4));
        ANSWERS(cuMemAllocPitch(&address, &pitch_bytes, 100, 0, 4), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemAllocPitch(&address, &pitch_bytes, 0, 10, 4), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemAllocPitch(&address, &pitch_bytes, 100, 10, 5), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemAllocPitch(NULL, &pitch_bytes, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemAllocPitch(&address, NULL, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemAllocPitch(&address, &pitch_bytes, 100, SIZE_MAX / 8, 4),
                CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(cuMemAllocPitch(&address, &pitch_bytes, 100, (size_t)1 << 40, 4),
                         CUDA_ERROR_OUT_OF_MEMORY);
    }
}

TEST(the_runtimes_functions_come_to_it) {
    void *address;
    size_t pitch_bytes;
    struct cudaPitchedPtr box;
    fixture_use_device(0);
    for (int turn = 0; turn < 4; turn++) {
        if (turn == 2)
            sim_calls_reset();
        ck_assert_int_eq(cudaMallocPitch(&address, &pitch_bytes, 300, HEIGHT), cudaSuccess);
        ck_assert_int_eq(
            cudaMalloc3D(&box, (struct cudaExtent){.width = 700, .height = 3, .depth = 5}),
            cudaSuccess);
        use((CUdeviceptr)(uintptr_t)address, 300, pitch_bytes);
        use((CUdeviceptr)(uintptr_t)box.ptr, 700, box.pitch);
        ck_assert_int_eq(cudaFree(address), cudaSuccess);
        ck_assert_int_eq(cudaFree(box.ptr), cudaSuccess);
    }
    ck_assert_uint_eq(sim_calls("cuMemAllocPitch_v2"), is_pooled() ? 0 : 4);
}

int main(void) {
    return fixture_run("pitch");
}
