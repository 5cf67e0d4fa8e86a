/*
 * Stores of the host's side of a staged copy: plain ones, or ones that bypass the caches
 * (src/copy/host.c). It copies pieces between a large array and two alternating buffers, and prints
 * GB/s by the processor time of one thread, the median of alternating rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
#include <emmintrin.h>

enum { N_ROUNDS = 15, ARRAY_BYTES = 256 << 20 };

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void store_past_caches(void *to, const void *from, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes / sizeof(__m128i); i++)
        _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
    _mm_sfence();
}

static void store_plainly(void *to, const void *from, size_t n_bytes) {
    memcpy(to, from, n_bytes);
}

static double gb_per_s(void (*store)(void *, const void *, size_t), char *array, char *buffers,
                       size_t piece_bytes, int is_to_device) {
    double start_s = now_s();
    for (size_t at = 0; at < ARRAY_BYTES; at += piece_bytes) {
        char *buffer = buffers + at / piece_bytes % 2 * piece_bytes;
        store(is_to_device ? buffer : array + at, is_to_device ? array + at : buffer, piece_bytes);
    }
    return 1e-9 * ARRAY_BYTES / (now_s() - start_s);
}

static int order(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void) {
    static const size_t pieces[] = {256 << 10, 512 << 10, 1 << 20, 2 << 20};
    char *array = aligned_alloc(4096, ARRAY_BYTES), *buffers = aligned_alloc(4096, 4 << 20);
    if (!array || !buffers)
        return 1;
    memset(array, 1, ARRAY_BYTES);
    memset(buffers, 2, 4 << 20);
    printf("GB/s of one thread: piece, direction, plain stores, stores past the caches\n");
    for (int i = 0; i < 4; i++) {
        for (int is_to_device = 1; is_to_device >= 0; is_to_device--) {
            double plain[N_ROUNDS], past[N_ROUNDS];
            for (int round = 0; round < N_ROUNDS; round++) {
                plain[round] = gb_per_s(store_plainly, array, buffers, pieces[i], is_to_device);
                past[round] = gb_per_s(store_past_caches, array, buffers, pieces[i], is_to_device);
            }
            qsort(plain, N_ROUNDS, sizeof *plain, order);
            qsort(past, N_ROUNDS, sizeof *past, order);
            printf("%4zu KiB %-9s %5.1f %5.1f\n", pieces[i] >> 10,
                   is_to_device ? "to device" : "to host", plain[N_ROUNDS / 2], past[N_ROUNDS / 2]);
        }
    }
    free(array);
    free(buffers);
    return 0;
}
#else
int main(void) {
    printf("no stores past the caches here\n");
    return 0;
}
#endif
