#include "base/utf8.h"

#include <string.h>

uint32_t cushim_utf8_next(const char **at) {
    /* the least code point that needs this many bytes; smaller ones have shorter forms */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)(*at)++;
    if (*byte < 0x80)
        return *byte;
    int n = *byte >= 0xf0 ? 4 : *byte >= 0xe0 ? 3 : 2;
    uint32_t point = *byte & (0x7fu >> n);
    if (*byte < 0xc0 || *byte >= 0xf8)
        return CUSHIM_UTF8_BAD;
    for (int i = 1; i < n; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return CUSHIM_UTF8_BAD;
        point = point << 6 | (byte[i] & 0x3f);
    }
    if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return CUSHIM_UTF8_BAD;
    *at += n - 1;
    return point;
}

void cushim_utf8_clean(char *text) {
    const char *at = text;
    while (*at) {
        size_t begin = (size_t)(at - text);
        uint32_t point = cushim_utf8_next(&at);
        /* U+2028 to U+202E and U+2066 to U+2069 break lines and change the direction of writing */
        if (point < 0x20 || (point >= 0x7f && point < 0xa0) ||
            (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
            point == CUSHIM_UTF8_BAD)
            memset(text + begin, '?', (size_t)(at - text) - begin);
    }
}

void cushim_utf8_end(char *text, size_t n_bytes) {
    text[n_bytes - 1] = 0;
    cushim_utf8_clean(text);
}

/* The number of bytes in the first columns, and the number of these columns. */
static size_t bytes_of(const char *text, size_t columns, size_t *n_columns) {
    const char *at = text;
    for (*n_columns = 0; *at && *n_columns < columns; ++*n_columns)
        cushim_utf8_next(&at);
    return (size_t)(at - text);
}

size_t cushim_utf8_columns(const char *text) {
    size_t n;
    bytes_of(text, SIZE_MAX, &n);
    return n;
}

char *cushim_utf8_fit(char *text, size_t columns) {
    static const char dots[] = "...";
    const size_t n_dots = columns < sizeof dots - 1 ? columns : sizeof dots - 1;
    size_t n;
    if (text[bytes_of(text, columns, &n)])
        memcpy(text + bytes_of(text, columns - n_dots, &n), dots + sizeof dots - 1 - n_dots,
               n_dots + 1);
    return text;
}

char *cushim_utf8_cell(char cell[CUSHIM_CELL_BYTES], const char *text, size_t columns) {
    size_t n, n_bytes = bytes_of(text, columns, &n);
    memcpy(cell, text, n_bytes);
    memset(cell + n_bytes, ' ', columns - n);
    cell[n_bytes + columns - n] = 0;
    return cell;
}
