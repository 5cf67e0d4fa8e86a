/*
 * A writer: formatted text to a file descriptor through one small buffer, without stdio's streams,
 * which belong to the program.  The first write that fails ends the text: the disk is full, or the
 * pipe is closed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cushim_writer {
    int fd;
    int error; /* an errno; 0: everything that was sent arrived */
    size_t n_bytes;
    char buffer[4096];
    char last; /* byte that was flushed */
};

/* Append; a piece of more than 1 KiB is cut. */
__attribute__((format(printf, 2, 3))) void cushim_write(struct cushim_writer *writer,
                                                        const char *format, ...);

/* Append bytes unchanged. */
void cushim_write_bytes(struct cushim_writer *writer, const void *bytes, size_t n_bytes);

/* Send the buffered bytes. */
void cushim_writer_flush(struct cushim_writer *writer);

/* The last byte that was written; 0: there is none. */
char cushim_write_last(const struct cushim_writer *writer);

/* What an item of JSON begins with: "," unless its list or object was just opened. */
const char *cushim_write_comma(const struct cushim_writer *writer);

enum { CUSHIM_AMOUNT_BYTES = 32, CUSHIM_SOME_BYTES = 64 };

/* Texts for people: "1,234,567"; "1.50 GiB"; "2.31 ms".  They return `text`, of at most 11 columns;
 * larger counts are cut to thousands, "k", or a greater unit. */
char *cushim_text_count(char text[CUSHIM_AMOUNT_BYTES], uint64_t n);
char *cushim_text_bytes(char text[CUSHIM_AMOUNT_BYTES], uint64_t n_bytes);
char *cushim_text_time(char text[CUSHIM_AMOUNT_BYTES], uint64_t ns);

/* "1 block", "2,000 blocks".  Returns `text`. */
char *cushim_text_some(char text[CUSHIM_SOME_BYTES], uint64_t n, const char *one);

/* The same in a buffer that ends with the block of the caller. */
#define CUSHIM_COUNT(n)       cushim_text_count((char[CUSHIM_AMOUNT_BYTES]){0}, (n))
#define CUSHIM_BYTES(n_bytes) cushim_text_bytes((char[CUSHIM_AMOUNT_BYTES]){0}, (n_bytes))
#define CUSHIM_TIME(ns)       cushim_text_time((char[CUSHIM_AMOUNT_BYTES]){0}, (ns))
#define CUSHIM_SOME(n, one)   cushim_text_some((char[CUSHIM_SOME_BYTES]){0}, (n), (one))
