#include "copy/host.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Asked of a page that is there. */
bool cushim_copy_host_can_look(void) {
    static const char own;
    static atomic_int known; /* 0: nobody asked; 1: it does; -1: it does not */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        int error = errno;
        answer = populate((uint64_t)(uintptr_t)&own, 1, false) ? 1 : -1;
        errno = error;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer > 0;
}

/* Between rows that are a page and more apart there may be nothing. */
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

void cushim_copy_host_write(const struct cushim_copy_cut *cut,
                            const struct cushim_copy_piece *piece, const char *buffer) {
    for (size_t y = 0; y < piece->n_rows; y++)
        memcpy(row(cut, piece, y), buffer + y * piece->width_bytes, piece->width_bytes);
}
