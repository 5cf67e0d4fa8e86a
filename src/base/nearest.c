#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/bits.h"

static bool is_same(char a, char b) {
    char x = a == '-' ? '_' : (char)tolower((unsigned char)a);
    char y = b == '-' ? '_' : (char)tolower((unsigned char)b);
    return x == y;
}

/* The table of distances between beginnings, row by row; a swap needs the row before the last. */
static size_t distance_of(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t rows[3][CUSHIM_NEAREST_BYTES + 1] = {{0}};
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= n_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            now[j] = cushim_least(cushim_least(last[j], now[j - 1]) + 1,
                                  last[j - 1] + (is_same(a[i - 1], b[j - 1]) ? 0 : 1));
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]))
                now[j] = cushim_least(now[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[n_b];
}

void cushim_nearest_begin(struct cushim_nearest *search, const char *word, size_t n_bytes) {
    size_t bound = n_bytes / 3 ? n_bytes / 3 : 1;
    *search = (struct cushim_nearest){.word = word, .n_bytes = n_bytes, .distance = bound + 1};
}

void cushim_nearest_try(struct cushim_nearest *search, const char *candidate) {
    size_t n_bytes = strlen(candidate);
    if (search->n_bytes > CUSHIM_NEAREST_BYTES || n_bytes > CUSHIM_NEAREST_BYTES)
        return;
    size_t distance = distance_of(search->word, search->n_bytes, candidate, n_bytes);
    if (distance >= search->distance)
        return;
    search->distance = distance;
    search->best = candidate;
}
