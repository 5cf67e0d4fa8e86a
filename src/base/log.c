#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/output.h"
#include "base/utf8.h"

/* The preload's default; the companion starts at OFF. */
atomic_int cushim_log_level_now = CUSHIM_LOG_ERROR;

/* Never freed, because a thread may be inside.  All sinks that ever were are in a list. */
struct sink {
    cushim_log_sink_fn *receive;
    void *cookie;
    struct sink *before;
};
static _Atomic(struct sink *) sink_now, all_sinks;

/* One byte more than is written, because a receiver gets a final 0. */
struct line {
    char text[512 + 1];
    size_t n_bytes;
};

/* The last two bytes are kept for the newline and the 0. */
static void put(struct line *line, char c) {
    if (line->n_bytes < sizeof line->text - 2)
        line->text[line->n_bytes++] = c;
}

static void put_text(struct line *line, const char *text) {
    for (text = text ? text : "(null)"; *text; text++)
        put(line, *text == '\n' ? ' ' : *text);
}

static void put_number(struct line *line, uint64_t number, unsigned base) {
    char digits[24];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    while (n)
        put(line, digits[--n]);
}

static void put_signed(struct line *line, long number) {
    if (number < 0)
        put(line, '-');
    put_number(line, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10);
}

/* One conversion: `at` points to the character behind '%'; returns the last character it used. */
static const char *put_conversion(struct line *line, const char *at, va_list *args) {
    int is_long = *at == 'l' || *at == 'z';
    if (is_long)
        at++;
    switch (*at) {
    case 's':
        put_text(line, va_arg(*args, const char *));
        break;
    case 'd':
        put_signed(line, is_long ? va_arg(*args, long) : va_arg(*args, int));
        break;
    case 'u':
        put_number(line, is_long ? va_arg(*args, unsigned long) : va_arg(*args, unsigned), 10);
        break;
    case 'x':
        put_number(line, is_long ? va_arg(*args, unsigned long) : va_arg(*args, unsigned), 16);
        break;
    case 'p':
        put_text(line, "0x");
        put_number(line, (uintptr_t)va_arg(*args, void *), 16);
        break;
    default:
        put(line, *at);
        break;
    }
    return at;
}

void cushim_log_set_level(enum cushim_log_level level) {
    atomic_store_explicit(&cushim_log_level_now, (int)level, memory_order_relaxed);
}

bool cushim_log_set_sink(cushim_log_sink_fn *receive, void *cookie) {
    struct sink *sink = receive ? malloc(sizeof *sink) : NULL;
    if (receive && !sink)
        return false;
    if (sink) {
        *sink =
            (struct sink){receive, cookie, atomic_load_explicit(&all_sinks, memory_order_relaxed)};
        while (!atomic_compare_exchange_weak(&all_sinks, &sink->before, sink)) {
        }
    }
    atomic_store_explicit(&sink_now, sink, memory_order_release);
    return true;
}

void cushim_log(enum cushim_log_level level, const char *noun, const char *format, ...) {
    static const char *const names[] = {"off", "error", "warn", "info", "debug"};
    struct line line = {.n_bytes = 0};
    int saved_errno = errno;
    put_text(&line, "cushim[");
    put_number(&line, (uint64_t)getpid(), 10);
    put_text(&line, "] ");
    put_text(&line, names[level]);
    put(&line, ' ');
    put_text(&line, noun);
    put_text(&line, ": ");
    va_list args;
    va_start(args, format);
    for (const char *at = format; *at; at++) {
        if (*at == '%' && at[1])
            at = put_conversion(&line, at + 1, &args);
        else
            put(&line, *at);
    }
    va_end(args);
    line.text[line.n_bytes] = 0;
    cushim_utf8_clean(line.text); /* it contains words of others */
    line.text[line.n_bytes++] = '\n';
    line.text[line.n_bytes] = 0;
    struct sink *sink = atomic_load_explicit(&sink_now, memory_order_acquire);
    if (sink)
        sink->receive(sink->cookie, (int)level, line.text);
    else /* the program closed its stderr; there is nowhere to report that */
        cushim_output_write(STDERR_FILENO, line.text, line.n_bytes);
    errno = saved_errno;
}
