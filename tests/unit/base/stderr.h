/* Captures in a pipe what a test's process writes to standard error. */
#pragma once

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct caught {
    int saved, from;
    char text[8192];
    size_t n_reads; /* in packet mode each read returns one write */
};

static inline void caught_begin(struct caught *caught) {
    int ends[2];
    if (pipe2(ends, O_DIRECT) != 0)
        _exit(99);
    memset(caught, 0, sizeof *caught);
    caught->saved = dup(STDERR_FILENO);
    caught->from = ends[0];
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

static inline void caught_end(struct caught *caught) {
    size_t n_bytes = 0;
    ssize_t n;
    dup2(caught->saved, STDERR_FILENO);
    close(caught->saved);
    while ((n = read(caught->from, caught->text + n_bytes, sizeof caught->text - 1 - n_bytes)) >
           0) {
        n_bytes += (size_t)n;
        caught->n_reads++;
    }
    close(caught->from);
}
