/*
 * The log: one line, one write(2), to standard error.
 *
 * No stdio, no allocation, no lock; never standard output.  A line that is off costs one load.  The
 * form is `cushim[pid] level noun: text`.  Lines are formatted on the stack and cut at 512 bytes.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

enum cushim_log_level {
    CUSHIM_LOG_OFF,
    CUSHIM_LOG_ERROR,
    CUSHIM_LOG_WARN,
    CUSHIM_LOG_INFO,
    CUSHIM_LOG_DEBUG
};

/* Only cushim_log_set_level writes it; read relaxed everywhere. */
extern atomic_int cushim_log_level_now;

void cushim_log_set_level(enum cushim_log_level level);

/* Receives each line, with its newline, in any thread. */
typedef void cushim_log_sink_fn(void *cookie, int level, const char *line);

/* Lines go to `sink` instead of standard error; NULL: back.  False: no host memory. */
bool cushim_log_set_sink(cushim_log_sink_fn *sink, void *cookie);

static inline bool cushim_log_on(enum cushim_log_level level) {
    return atomic_load_explicit(&cushim_log_level_now, memory_order_relaxed) >= (int)level;
}

/*
 * Write one line.  `format` knows %s (NULL is "(null)"), %d, %u, %ld, %lu, %zu, %x, %lx, %p and %%;
 * errno does not change.
 */
__attribute__((format(printf, 3, 4))) void cushim_log(enum cushim_log_level level, const char *noun,
                                                      const char *format, ...);

#define CUSHIM_LOG_AT(level, ...)                                                                  \
    do {                                                                                           \
        if (cushim_log_on(level))                                                                  \
            cushim_log(level, __VA_ARGS__);                                                        \
    } while (0)
#define log_error(...) CUSHIM_LOG_AT(CUSHIM_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  CUSHIM_LOG_AT(CUSHIM_LOG_WARN, __VA_ARGS__)
#define log_info(...)  CUSHIM_LOG_AT(CUSHIM_LOG_INFO, __VA_ARGS__)
#define log_debug(...) CUSHIM_LOG_AT(CUSHIM_LOG_DEBUG, __VA_ARGS__)
