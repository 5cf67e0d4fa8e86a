/* Numbers for keys, sorted numbers, and numbers as texts for people. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/writer.h"

/* Gives keys numbers from 0 on, in the order of first use, for formats that name each frame
 * once. */
struct numbers {
    struct number *rows;
    uint64_t n;
};

/* Find the number of a key; a new key gets the next number.  Returns false if there is no
 * memory. */
bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new);

void numbers_free(struct numbers *numbers);

void numbers_sort(uint64_t numbers[], size_t n);

/* Write "12.3 %" of all.  The number is cut rather than rounded, so that 100.0 means all.
 * Returns `text`. */
enum { NUMBERS_SHARE_BYTES = 24 };
const char *numbers_share(char text[NUMBERS_SHARE_BYTES], uint64_t part, uint64_t all);

/* Write "1 block", "2,000 blocks".  Returns `text`. */
enum { NUMBERS_SOME_BYTES = 64 };
const char *numbers_some(char text[NUMBERS_SOME_BYTES], uint64_t n, const char *one);

/*
 * The texts of numbers.  Each is in memory of the surrounding block, so several can be arguments of
 * one call.
 */
#define text_of_bytes(n)         cushim_text_bytes((char[CUSHIM_AMOUNT_BYTES]){0}, n)
#define text_of_time(ns)         cushim_text_time((char[CUSHIM_AMOUNT_BYTES]){0}, ns)
#define text_of_count(n)         cushim_text_count((char[CUSHIM_AMOUNT_BYTES]){0}, n)
#define text_of_share(part, all) numbers_share((char[NUMBERS_SHARE_BYTES]){0}, part, all)
#define text_of_some(n, one)     numbers_some((char[NUMBERS_SOME_BYTES]){0}, n, one)
