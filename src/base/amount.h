/*
 * An amount as an option gives it: bytes, a share of something that only its user knows, or auto,
 * if the user has a rule for that.
 */
#ifndef CUSHIM_BASE_AMOUNT_H
#define CUSHIM_BASE_AMOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
