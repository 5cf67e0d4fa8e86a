#include "tools/cushim/recording/numbers.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct number {
    uint64_t key, number;
    UT_hash_handle hh;
};

bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new) {
    struct number *row, *found = NULL;
    HASH_FIND(hh, numbers->rows, &key, sizeof key, row);
    *is_new = !row;
    if (!row) {
        row = calloc(1, sizeof *row);
        if (!row)
            return false;
        row->key = key;
        row->number = numbers->n;
        HASH_ADD(hh, numbers->rows, key, sizeof row->key, row);
        HASH_FIND(hh, numbers->rows, &key, sizeof key, found);
        if (!found) {
            free(row);
            return false;
        }
        numbers->n++;
    }
    *number = row->number;
    return true;
}

void numbers_free(struct numbers *numbers) {
    struct number *row, *next;
    HASH_ITER(hh, numbers->rows, row, next) {
        HASH_DEL(numbers->rows, row);
        free(row);
    }
    *numbers = (struct numbers){NULL, 0};
}
