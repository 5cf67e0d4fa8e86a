#include "base/writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/output.h"

void cushim_writer_flush(struct cushim_writer *writer) {
    if (!writer->error)
        writer->error = cushim_output_write(writer->fd, writer->buffer, writer->n_bytes);
    writer->last = cushim_write_last(writer);
    writer->n_bytes = 0;
}

char cushim_write_last(const struct cushim_writer *writer) {
    return writer->n_bytes ? writer->buffer[writer->n_bytes - 1] : writer->last;
}

const char *cushim_write_comma(const struct cushim_writer *writer) {
    char last = cushim_write_last(writer);
    return last == '[' || last == '{' ? "" : ",";
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

void cushim_write_bytes(struct cushim_writer *writer, const void *bytes, size_t n_bytes) {
    const char *from = bytes;
    while (n_bytes) {
        size_t space = sizeof writer->buffer - writer->n_bytes,
               n = n_bytes < space ? n_bytes : space;
        memcpy(writer->buffer + writer->n_bytes, from, n);
        writer->n_bytes += n;
        from += n;
        n_bytes -= n;
        if (n_bytes)
            cushim_writer_flush(writer);
    }
}

char *cushim_text_count(char text[CUSHIM_AMOUNT_BYTES], uint64_t n) {
    enum { MOST = 1000000000, MOST_IN_UNITS = MOST / 100 };
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    size_t unit = 0;
    while (n >= (unit ? MOST_IN_UNITS : MOST)) {
        n /= 1000;
        unit++;
    }
    char digits[24];
    int n_digits = snprintf(digits, sizeof digits, "%" PRIu64, n);
    char *out = text;
    for (int i = 0; i < n_digits; i++) {
        if (i && (n_digits - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    strcpy(out, units[unit]);
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
    static const char *const units[] = {"ns", "us", "ms", "s", "d"};
    static const double steps[] = {1000, 1000, 1000, 86400};
    double amount = (double)ns;
    size_t unit = 0;
    /* in days if the seconds have six digits */
    for (; unit < 4 && amount >= (unit == 3 ? 100000 : 1000); unit++)
        amount /= steps[unit];
    int decimals = unit == 0 ? 0 : amount < 10 ? 2 : amount < 100 ? 1 : 0;
    snprintf(text, CUSHIM_AMOUNT_BYTES, "%.*f %s", decimals, amount, units[unit]);
    return text;
}

char *cushim_text_some(char text[CUSHIM_SOME_BYTES], uint64_t n, const char *one) {
    const char *ending = n == 1 ? "" : one[strlen(one) - 1] == 's' ? "es" : "s";
    snprintf(text, CUSHIM_SOME_BYTES, "%s %.24s%s", CUSHIM_COUNT(n), one, ending);
    return text;
}
