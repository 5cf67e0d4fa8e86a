/*
 * An amount as an option gives it: bytes, a share of something that only its user knows, or auto,
 * if the user has a rule for that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct cushim_amount {
    size_t number; /* bytes, or 0 to 100 */
    bool is_percent;
};

/* Not set: its user has a rule. */
static const struct cushim_amount cushim_amount_auto = {SIZE_MAX, false};

static inline bool cushim_amount_is_auto(struct cushim_amount amount) {
    return amount.number == SIZE_MAX && !amount.is_percent;
}

/* As one word, which is not 0, and back. */
static inline uint64_t cushim_amount_pack(struct cushim_amount amount) {
    return ((uint64_t)amount.number + 1) << 1 | amount.is_percent;
}

static inline struct cushim_amount cushim_amount_unpack(uint64_t word) {
    return (struct cushim_amount){(size_t)((word >> 1) - 1), word & 1};
}

/* In bytes, if the whole has whole_bytes. */
static inline size_t cushim_amount_bytes(struct cushim_amount amount, size_t whole_bytes) {
    if (!amount.is_percent)
        return amount.number;
    return whole_bytes / 100 * amount.number + whole_bytes % 100 * amount.number / 100;
}

/*
 * Read a size as people write it: 4096, 512m, 1.5G, 16GB or 16GiB, all in powers of 1024.  Returns
 * NULL, or the mistake as one phrase (static); `bytes` is then unchanged, or SIZE_MAX if it is too
 * large.
 */
static inline const char *cushim_size_read(size_t *bytes, const char *text) {
    static const char mistake[] = "is not a size such as 512M or 1.5G";
    size_t whole = 0, part = 0, parts = 1, unit = 1;
    const char *units = "KkMmGgTt", *found;
    if (*text < '0' || *text > '9')
        return mistake;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(whole, (size_t)10, &whole) ||
            __builtin_add_overflow(whole, (size_t)(*text - '0'), &whole))
            goto too_large;
    }
    bool has_part = *text == '.';
    for (text += has_part; has_part && *text >= '0' && *text <= '9'; text++) {
        if (parts < 1000000) { /* further digits are less than a byte of a mebibyte */
            part = part * 10 + (size_t)(*text - '0');
            parts *= 10;
        }
    }
    if (*text && (found = strchr(units, *text))) {
        unit = (size_t)1 << (10 * ((found - units) / 2 + 1));
        text++;
    }
    if (strcasecmp(text, "B") != 0 && (unit == 1 || strcasecmp(text, "iB") != 0) && *text)
        return mistake;
    if (has_part && (unit == 1 || parts == 1))
        return mistake;
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, part * unit / parts, &whole))
        goto too_large;
    *bytes = whole;
    return NULL;
too_large:
    *bytes = SIZE_MAX;
    return "is too large";
}
