/* Read a part of a file whole. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* 0, or an errno: ENOEXEC if the file ends before. */
static inline int cushim_file_read(int file, void *bytes, size_t n_bytes, uint64_t at) {
    char *to = bytes;
    while (n_bytes) {
        ssize_t n = pread(file, to, n_bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOEXEC;
        to += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return 0;
}
