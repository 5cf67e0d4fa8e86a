/*
 * The entries of a PTX text, as the manual of the PTX ISA writes them: `.entry NAME (PARAMETERS)`,
 * each `.param .TYPE NAME` or `.param .align N .b8 NAME[BYTES]`.
 */
#include "gpu_image.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

struct scan {
    struct sim_part text;
    size_t at;
};

enum { WORD_BYTES = 1024 };

static char peek(const struct scan *scan) {
    return scan->at < scan->text.n_bytes ? scan->text.bytes[scan->at] : 0;
}

static bool begins(const struct scan *scan, const char *word) {
    struct sim_part here = sim_part_of(scan->text, scan->at, strlen(word));
    return here.bytes && memcmp(here.bytes, word, here.n_bytes) == 0;
}

static void skip_to(struct scan *scan, const char *end) {
    while (peek(scan) && !begins(scan, end))
        scan->at++;
}

static void skip_blank(struct scan *scan) {
    for (;;) {
        if (begins(scan, "//"))
            skip_to(scan, "\n");
        else if (begins(scan, "/*"))
            skip_to(scan, "*/");
        else if (!isspace((unsigned char)peek(scan)) || !peek(scan))
            return;
        scan->at++;
    }
}

/* A name or a directive, or else one character.  False at the end. */
static bool next_word(struct scan *scan, char word[WORD_BYTES]) {
    size_t n = 0;
    skip_blank(scan);
    while (n < WORD_BYTES - 1 &&
           (isalnum((unsigned char)peek(scan)) || (n == 0 && peek(scan) == '.') ||
            (peek(scan) && strchr("_$%", peek(scan)))))
        word[n++] = scan->text.bytes[scan->at++];
    if (n == 0 && peek(scan))
        word[n++] = scan->text.bytes[scan->at++];
    word[n] = '\0';
    return n > 0;
}

/* The bytes of a type such as `.u32`; 0: it is none. */
static size_t size_of(const char *word) {
    bool is_type = word[0] == '.' && word[1] && strchr("bsuf", word[1]);
    return is_type ? (size_t)atoi(word + 2) / 8 : 0;
}

struct parameter {
    size_t n_bytes, align;
};

/* The n-th, at its boundary after the one before.  False: there are too many. */
static bool put_parameter(struct sim_image_row *row, size_t n, struct parameter parameter,
                          size_t end) {
    if (n >= SIM_IMAGE_N_SIZES - 1)
        return false;
    row->sizes[n] = parameter.n_bytes;
    row->offsets[n] = (end + parameter.align - 1) / parameter.align * parameter.align;
    return true;
}

/* From the opening bracket to the closing one. */
static bool read_parameters(struct scan *scan, struct sim_image_row *row) {
    char word[WORD_BYTES];
    struct parameter parameter = {0, 0};
    size_t n = 0, end = 0;
    while (next_word(scan, word)) {
        if ((word[0] == ',' || word[0] == ')') && parameter.n_bytes) {
            if (!put_parameter(row, n, parameter, end))
                return false;
            end = row->offsets[n] + row->sizes[n];
            n++;
            parameter = (struct parameter){0, 0};
        }
        if (word[0] == ')')
            return true;
        if (strcmp(word, ".align") == 0 && next_word(scan, word)) {
            if (!parameter.n_bytes) /* a type after the first belongs to what it points to */
                parameter.align = (size_t)atoi(word);
        } else if (word[0] == '[' && next_word(scan, word)) {
            parameter.n_bytes *= (size_t)atoi(word);
        } else if (size_of(word) && !parameter.n_bytes) {
            parameter.n_bytes = size_of(word);
            parameter.align = parameter.align ? parameter.align : parameter.n_bytes;
        }
    }
    return false;
}

/* After `.entry`: a name, its parameters, bounds, and a body if it has one. */
static bool read_entry(struct sim_image *image, struct scan *scan) {
    char name[WORD_BYTES], word[WORD_BYTES];
    struct sim_image_row row = {.kind = SIM_IMAGE_ENTRY, .has_offsets = true};
    if (!next_word(scan, name) || !next_word(scan, word) || word[0] != '(' ||
        !read_parameters(scan, &row))
        return false;
    return sim_image_add(image, &row, name);
}

bool sim_ptx_read(struct sim_image *image, struct sim_part text) {
    struct scan scan = {.text = text};
    char word[WORD_BYTES];
    bool is_ptx = false;
    while (next_word(&scan, word)) {
        is_ptx = is_ptx || strcmp(word, ".version") == 0;
        if (strcmp(word, ".entry") == 0 && !read_entry(image, &scan))
            return false;
    }
    return is_ptx;
}
