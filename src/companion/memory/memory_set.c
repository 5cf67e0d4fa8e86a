/*
 * Filling memory.  One description serves all functions; the driver has an entry for each size of
 * word, with a stream and without, for a line and for rows.
 */

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"

struct fill {
    uint64_t p;
    uint32_t value;
    unsigned word_bytes; /* 1, 2, 4 */
    size_t width;        /* words of a row */
    size_t rows;
    size_t pitch_bytes; /* only of rows */
};

/* The bytes from the first to the last. */
static enum cushim_status judge(const char *what, const struct fill *fill, size_t *bytes) {
    size_t row_bytes, before_bytes;
    CUSHIM_TRY(cushim_memory_check_bytes(what, "count", fill->width));
    CUSHIM_TRY(cushim_memory_check_bytes(what, "rows", fill->rows));
    CUSHIM_TRY(cushim_memory_check_bytes(what, "pitch_bytes", fill->pitch_bytes));
    *bytes = 0;
    if (!fill->width || !fill->rows)
        return CUSHIM_OK;
    if (__builtin_mul_overflow(fill->width, fill->word_bytes, &row_bytes) ||
        __builtin_mul_overflow(fill->pitch_bytes, fill->rows - 1, &before_bytes) ||
        __builtin_add_overflow(before_bytes, row_bytes, bytes) || *bytes > (size_t)INT64_MAX)
        return cushim_fail(what, CUSHIM_INVALID, "width=%zu rows=%zu pitch_bytes=%zu", fill->width,
                           fill->rows, fill->pitch_bytes);
    if (fill->p % fill->word_bytes || fill->pitch_bytes % fill->word_bytes)
        return cushim_fail(what, CUSHIM_INVALID, "misaligned, p=0x%llx pitch_bytes=%zu word=%u",
                           (unsigned long long)fill->p, fill->pitch_bytes, fill->word_bytes);
    return CUSHIM_OK;
}

/* ---- lines ---- */

/* The driver's entry for the width of the words: its name is `before`, the width and `behind`. */
#define BY_WIDTH(scope, fill, before, behind, at, ...)                                             \
    ((fill)->word_bytes == 1 ? CUSHIM_CALL(scope, before##8##behind, UNPACK at,                    \
                                           (unsigned char)(fill)->value, __VA_ARGS__)              \
     : (fill)->word_bytes == 2                                                                     \
         ? CUSHIM_CALL(scope, before##16##behind, UNPACK at, (unsigned short)(fill)->value,        \
                       __VA_ARGS__)                                                                \
         : CUSHIM_CALL(scope, before##32##behind, UNPACK at, (fill)->value, __VA_ARGS__))
#define UNPACK(...) __VA_ARGS__

/* On the legacy stream, or in the order of a stream. */
static enum cushim_status set(const char *what, struct fill fill, bool is_async,
                              struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {.n_ranges = 1};
    size_t bytes;
    CUSHIM_TRY(cushim_driver_use(what));
    CUSHIM_TRY(judge(what, &fill, &bytes));
    if (!bytes)
        return CUSHIM_OK;
    call.ranges[0] = cushim_memory_span("p", fill.p, bytes, CUSHIM_MEMORY_AT_DEVICE);
    CUSHIM_TRY(cushim_memory_enter(&call, what, s));
    CUSHIM_TRY(is_async ? cushim_memory_may_queue(&call) : cushim_capture_refuse(&call.scope));
    if (!is_async)
        return BY_WIDTH(&call.scope, &fill, cuMemsetD, _v2, (fill.p), fill.width);
    if (!fill.pitch_bytes)
        return BY_WIDTH(&call.scope, &fill, cuMemsetD, Async, (fill.p), fill.width, call.stream);
    return BY_WIDTH(&call.scope, &fill, cuMemsetD2D, Async, (fill.p, fill.pitch_bytes), fill.width,
                    fill.rows, call.stream);
}

/* A row longer than the pitch would run into the next row. */
static enum cushim_status set_rows(const char *what, struct fill fill, struct cushim_stream *s) {
    CUSHIM_TRY(cushim_driver_use(what));
    CUSHIM_FAIL_IF(what, fill.width && fill.rows && fill.width > fill.pitch_bytes / fill.word_bytes,
                   CUSHIM_INVALID, "width=%zu over pitch_bytes=%zu", fill.width, fill.pitch_bytes);
    return set(what, fill, true, s);
}

/* ---- the names ---- */

static struct fill line(cushim_devptr p, uint32_t value, unsigned word_bytes, size_t count) {
    return (struct fill){
        .p = p, .value = value, .word_bytes = word_bytes, .width = count, .rows = 1};
}

/* The calls for words of one width. */
#define SET(bits)                                                                                  \
    enum cushim_status cushim_memory_set##bits(cushim_devptr p, uint##bits##_t v, size_t count) {  \
        return set(__func__, line(p, v, bits / 8, count), false, CUSHIM_STREAM_LEGACY);            \
    }                                                                                              \
    enum cushim_status cushim_memory_set##bits##_async(cushim_devptr p, uint##bits##_t v,          \
                                                       size_t count, struct cushim_stream *s) {    \
        return set(__func__, line(p, v, bits / 8, count), true, s);                                \
    }                                                                                              \
    enum cushim_status cushim_memory_set2d##bits(cushim_devptr p, size_t pitch_bytes,              \
                                                 uint##bits##_t v, size_t width, size_t rows,      \
                                                 struct cushim_stream *s) {                        \
        const struct fill fill = {p, v, bits / 8, width, rows, pitch_bytes};                       \
        return set_rows(__func__, fill, s);                                                        \
    }
SET(8)
SET(16)
SET(32)
