#include "copy/host.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static bool populate(uint64_t address, size_t n_bytes, bool is_written) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = address & ~(page - 1), end = (address + n_bytes + page - 1) & ~(page - 1);
    return madvise((void *)(uintptr_t)start, end - start,
                   is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

/* Try it on a page that is there. */
bool cushim_copy_host_can_look(void) {
    static const char own;
    static atomic_int known; /* 0: not tried yet; 1: it does; -1: it does not */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        int error = errno;
        answer = populate((uint64_t)(uintptr_t)&own, 1, false) ? 1 : -1;
        errno = error;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer > 0;
}

/* If rows are at least a page apart, there may be nothing between them. */
bool cushim_copy_host_is_there(const struct cushim_copy_cut *cut,
                               const struct cushim_copy_piece *piece) {
    bool is_written = !cut->box.is_to_device;
    size_t row_bytes = cut->box.host.row_bytes;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (piece->n_rows == 1 || row_bytes - piece->width_bytes < page)
        return populate(piece->host, (piece->n_rows - 1) * row_bytes + piece->width_bytes,
                        is_written);
    for (size_t y = 0; y < piece->n_rows; y++) {
        if (!populate(piece->host + y * row_bytes, piece->width_bytes, is_written))
            return false;
    }
    return true;
}

static char *row(const struct cushim_copy_cut *cut, const struct cushim_copy_piece *piece,
                 size_t y) {
    return (char *)(uintptr_t)(piece->host + y * cut->box.host.row_bytes);
}

void cushim_copy_host_read(const struct cushim_copy_cut *cut, const struct cushim_copy_piece *piece,
                           char *buffer) {
    for (size_t y = 0; y < piece->n_rows; y++)
        memcpy(buffer + y * piece->width_bytes, row(cut, piece, y), piece->width_bytes);
}

/*
 * The data for the program is larger than a processor's caches, and a store past them avoids the
 * read of each line with which a plain store begins.  For the other direction a plain store is
 * better, because the device reads the bytes next, out of the caches.
 */
static void store(char *to, const char *from, size_t n_bytes) {
#ifdef __x86_64__
    enum { LINE_BYTES = 64, LEAST_BYTES = 4096 };
    size_t head = -(uintptr_t)to % LINE_BYTES;
    if (n_bytes >= LEAST_BYTES) {
        memcpy(to, from, head);
        for (to += head, from += head, n_bytes -= head; n_bytes >= LINE_BYTES;
             to += LINE_BYTES, from += LINE_BYTES, n_bytes -= LINE_BYTES) {
            for (size_t i = 0; i < LINE_BYTES; i += sizeof(__m128i))
                _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
        }
        _mm_sfence(); /* before any thread learns that they arrived */
    }
#endif
    memcpy(to, from, n_bytes);
}

void cushim_copy_host_write(const struct cushim_copy_cut *cut,
                            const struct cushim_copy_piece *piece, const char *buffer) {
    for (size_t y = 0; y < piece->n_rows; y++)
        store(row(cut, piece, y), buffer + y * piece->width_bytes, piece->width_bytes);
}
