/*
 * Copies into and out of write-combined memory.
 *
 * A store there waits in a small buffer until its line of 64 bytes is full, so lines are written
 * whole, by stores that go around the caches.  A load there is uncached: the streaming one reads a
 * line at once.
 */
#include <string.h>

#include "companion/mapped/mapped.h"

#if defined(__x86_64__)

#include <immintrin.h>

enum { LINE_BYTES = 64, WORD_BYTES = 16 };

void cushim_mapped_fence(void) {
    _mm_sfence();
}

/* Bytes before the first whole line, at most n. */
static size_t head_of(const void *address, size_t n) {
    size_t head = -(uintptr_t)address % LINE_BYTES;
    return head < n ? head : n;
}

/* dst begins a line. */
static void store_lines(char *dst, const char *src, size_t n_lines) {
    for (; n_lines; n_lines--, dst += LINE_BYTES, src += LINE_BYTES) {
        for (int i = 0; i < LINE_BYTES; i += WORD_BYTES)
            _mm_stream_si128((__m128i *)(dst + i), _mm_loadu_si128((const __m128i *)(src + i)));
    }
}

/* src begins a line. */
__attribute__((target("sse4.1"))) static void load_lines(char *dst, const char *src,
                                                         size_t n_lines) {
    for (; n_lines; n_lines--, dst += LINE_BYTES, src += LINE_BYTES) {
        __m128i words[LINE_BYTES / WORD_BYTES];
        for (int i = 0; i < LINE_BYTES / WORD_BYTES; i++)
            words[i] = _mm_stream_load_si128((__m128i *)(uintptr_t)(src + i * WORD_BYTES));
        for (int i = 0; i < LINE_BYTES / WORD_BYTES; i++)
            _mm_storeu_si128((__m128i *)(dst + i * WORD_BYTES), words[i]);
    }
}

static void copy_in(char *dst, const char *src, size_t n) {
    size_t head = head_of(dst, n);
    memcpy(dst, src, head);
    size_t n_lines = (n - head) / LINE_BYTES, done = head + n_lines * LINE_BYTES;
    store_lines(dst + head, src + head, n_lines);
    memcpy(dst + done, src + done, n - done);
    _mm_sfence();
}

static void copy_out(char *dst, const char *src, size_t n) {
    if (!__builtin_cpu_supports("sse4.1")) {
        memcpy(dst, src, n);
        return;
    }
    _mm_mfence(); /* streaming loads may pass what came before */
    size_t head = head_of(src, n);
    memcpy(dst, src, head);
    size_t n_lines = (n - head) / LINE_BYTES, done = head + n_lines * LINE_BYTES;
    load_lines(dst + head, src + head, n_lines);
    memcpy(dst + done, src + done, n - done);
}

#else

void cushim_mapped_fence(void) {
#if defined(__aarch64__)
    __asm__ volatile("dsb sy" ::: "memory"); /* devices are outside the domain of C's fences */
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static void copy_in(char *dst, const char *src, size_t n) {
    memcpy(dst, src, n);
    cushim_mapped_fence();
}

static void copy_out(char *dst, const char *src, size_t n) {
    memcpy(dst, src, n);
}

#endif

static enum cushim_status judge(const char *what, const void *dst, const void *src, size_t bytes) {
    CUSHIM_FAIL_IF(what, bytes > INT64_MAX, CUSHIM_INVALID, "bytes=%zu", bytes);
    CUSHIM_FAIL_IF(what, bytes && (!dst || !src), CUSHIM_INVALID, "%s=NULL", dst ? "src" : "dst");
    return cushim_driver_use_process(what);
}

enum cushim_status cushim_mapped_copy_in(void *dst, const void *src, size_t bytes) {
    CUSHIM_TRY(judge(__func__, dst, src, bytes));
    if (bytes)
        copy_in(dst, src, bytes);
    return CUSHIM_OK;
}

enum cushim_status cushim_mapped_copy_out(void *dst, const void *src, size_t bytes) {
    CUSHIM_TRY(judge(__func__, dst, src, bytes));
    if (bytes)
        copy_out(dst, src, bytes);
    return CUSHIM_OK;
}
