#include "preload/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * As write(2), but a pipe that nobody reads raises no signal: it would end the program with a code
 * that is not its own.
 */
static ssize_t write_quietly(int fd, const void *bytes, size_t n_bytes) {
    const struct timespec at_once = {0, 0};
    sigset_t broken_pipe, pending, old;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &old);
    ssize_t n = write(fd, bytes, n_bytes);
    int error = errno;
    if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&broken_pipe, NULL, &at_once); /* ours; one that was there before stays */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return n;
}

void cushim_writer_flush(struct cushim_writer *writer) {
    for (size_t done = 0; done < writer->n_bytes;) {
        ssize_t n = write_quietly(writer->fd, writer->buffer + done, writer->n_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    writer->n_bytes = 0;
}

void cushim_write(struct cushim_writer *writer, const char *format, ...) {
    char piece[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n <= 0)
        return;
    size_t n_bytes = (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1;
    if (n_bytes > sizeof writer->buffer - writer->n_bytes)
        cushim_writer_flush(writer);
    memcpy(writer->buffer + writer->n_bytes, piece, n_bytes);
    writer->n_bytes += n_bytes;
}

char *cushim_text_count(char text[CUSHIM_AMOUNT_BYTES], uint64_t n) {
    char digits[24];
    int n_digits = snprintf(digits, sizeof digits, "%" PRIu64, n);
    char *out = text;
    for (int i = 0; i < n_digits; i++) {
        if (i && (n_digits - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

char *cushim_text_bytes(char text[CUSHIM_AMOUNT_BYTES], uint64_t n_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double amount = (double)n_bytes;
    size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        amount /= 1024;
    int decimals = unit == 0 ? 0 : amount < 10 ? 2 : amount < 100 ? 1 : 0;
    snprintf(text, CUSHIM_AMOUNT_BYTES, "%.*f %s", decimals, amount, units[unit]);
    return text;
}

char *cushim_text_time(char text[CUSHIM_AMOUNT_BYTES], uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double amount = (double)ns;
    size_t unit = 0;
    for (; amount >= 1000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        amount /= 1000;
    int decimals = unit == 0 ? 0 : amount < 10 ? 2 : amount < 100 ? 1 : 0;
    snprintf(text, CUSHIM_AMOUNT_BYTES, "%.*f %s", decimals, amount, units[unit]);
    return text;
}
