#include "tools/cushim/numbers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"

struct number {
    uint64_t key, number;
    UT_hash_handle hh;
};

bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new) {
    struct number *row;
    HASH_GET(numbers->rows, key, key, row);
    if (!row)
        return false;
    *is_new = HASH_COUNT(numbers->rows) > numbers->n;
    if (*is_new)
        row->number = numbers->n++;
    *number = row->number;
    return true;
}

void numbers_free(struct numbers *numbers) {
    HASH_FREE(numbers->rows);
    *numbers = (struct numbers){NULL, 0};
}

const char *numbers_share(char text[NUMBERS_SHARE_BYTES], uint64_t part, uint64_t all) {
    uint64_t per_1000 = all ? (uint64_t)((__uint128_t)part * 1000 / all) : 0;
    snprintf(text, NUMBERS_SHARE_BYTES, "%" PRIu64 ".%u %%", per_1000 / 10,
             (unsigned)(per_1000 % 10));
    return text;
}
