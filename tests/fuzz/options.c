/*
 * Any text as the value of any option: it is read or refused, and a refused text leaves the field
 * unchanged.
 *
 * The first byte chooses the row and a form: the bytes as text, or mapped to letters that occur in
 * values, so that random bytes reach the depth of the parsers.
 */
#include "base/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* abort(), so that libFuzzer keeps the input. */
static void require(bool holds) {
    if (!holds)
        abort();
}

static bool is_in_range(const struct cushim_options *options, const struct cushim_option_row *row) {
    const char *field = (const char *)options + row->offset;
    switch (row->type) {
    case CUSHIM_OPTION_BOOL:
        return *(const unsigned char *)field <= 1;
    case CUSHIM_OPTION_BYTES:
        return *(const size_t *)(const void *)field >= row->min &&
               *(const size_t *)(const void *)field <= row->max;
    case CUSHIM_OPTION_AMOUNT: {
        const struct cushim_amount *amount = (const void *)field;
        return amount->is_percent ? amount->number <= 100
                                  : amount->number >= row->min && amount->number <= row->max;
    }
    case CUSHIM_OPTION_LIMITS:
        return memchr(field, 0, CUSHIM_OPTION_TEXT_BYTES) != NULL;
    case CUSHIM_OPTION_ENUM:
        return *(const int *)(const void *)field >= (int)row->min &&
               *(const int *)(const void *)field <= (int)row->max;
    case CUSHIM_OPTION_PATH:
    case CUSHIM_OPTION_TEXT:
        return memchr(field, 0, CUSHIM_OPTION_PATH_BYTES) != NULL;
    }
    return false;
}

static void fuzz_set(const struct cushim_option_row *row, const char *text) {
    struct cushim_options options, before;
    char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    cushim_options_default(&options);
    before = options;
    const char *wrong = cushim_option_set(&options, row, text, phrase);
    if (wrong) {
        require(*wrong && memcmp(&options, &before, sizeof options) == 0);
        return;
    }
    require(is_in_range(&options, row));
    /* reading the same text again changes nothing */
    before = options;
    require(!cushim_option_set(&options, row, text, phrase));
    require(memcmp(&options, &before, sizeof options) == 0);
}

/* The environment is one entry with any name. */
static void fuzz_load(const char *text) {
    static char entry[8192];
    struct cushim_options options;
    size_t n_rows;
    char *entries[] = {entry, NULL}, **saved = environ;
    memcpy(entry, "CUSHIM_", 7);
    memcpy(entry + 7, text, strlen(text) + 1);
    environ = entries;
    int quiet = dup(STDERR_FILENO);
    close(STDERR_FILENO); /* because there are many refusals */
    cushim_options_load(&options);
    dup2(quiet, STDERR_FILENO);
    close(quiet);
    environ = saved;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    for (size_t i = 0; i < n_rows; i++)
        require(is_in_range(&options, &rows[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const char letters[] = "0123456789KMGTkmgt.-+ onfyesrualdipctdebugwinh/%|";
    static char text[8000];
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    if (n_bytes < 2)
        return 0;
    bool is_spelled = data[0] & 1;
    size_t length = n_bytes - 2 < sizeof text - 1 ? n_bytes - 2 : sizeof text - 1;
    if (is_spelled && length > 24)
        length = 1 + length % 24;
    for (size_t i = 0; i < length; i++)
        text[i] = is_spelled ? letters[data[i + 2] % (sizeof letters - 1)] : (char)data[i + 2];
    text[length] = 0;
    fuzz_set(&rows[data[1] % n_rows], text);
    fuzz_load(text);
    return 0;
}
