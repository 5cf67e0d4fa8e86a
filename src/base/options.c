#include "base/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/nearest.h"

#define PREFIX "CUSHIM_"

#define NUMBER_BOOL(value)   value
#define NUMBER_BYTES(value)  value
#define NUMBER_AMOUNT(value) value
#define NUMBER_LIMITS(value) 0
#define NUMBER_ENUM(value)   value
#define NUMBER_PATH(value)   0
#define NUMBER_TEXT(value)   0
#define WORD_BOOL(value)     NULL
#define WORD_BYTES(value)    NULL
#define WORD_AMOUNT(value)   NULL
#define WORD_LIMITS(value)   value
#define WORD_ENUM(value)     NULL
#define WORD_PATH(value)     value
#define WORD_TEXT(value)     value

static const struct cushim_option_row rows[] = {
#define OPT(type, name, value, min, max, unit, sentence)                                           \
    {#name,                                                                                        \
     CUSHIM_OPTION_##type,                                                                         \
     NUMBER_##type(value),                                                                         \
     WORD_##type(value),                                                                           \
     min,                                                                                          \
     max,                                                                                          \
     unit,                                                                                         \
     sentence,                                                                                     \
     offsetof(struct cushim_options, name)},
#include "base/options.def"
#undef OPT
};

enum { N_OPTIONS = sizeof rows / sizeof rows[0] };

const struct cushim_option_row *cushim_option_rows(size_t *n_rows) {
    *n_rows = N_OPTIONS;
    return rows;
}

const struct cushim_option_row *cushim_option_find(const char *name, size_t n_bytes) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (strlen(rows[i].name) == n_bytes && strncasecmp(rows[i].name, name, n_bytes) == 0)
            return &rows[i];
    }
    return NULL;
}

const struct cushim_option_row *cushim_option_nearest(const char *name, size_t n_bytes) {
    struct cushim_nearest search;
    const struct cushim_option_row *row = NULL;
    cushim_nearest_begin(&search, name, n_bytes);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        cushim_nearest_try(&search, rows[i].name);
        if (search.best == rows[i].name)
            row = &rows[i];
    }
    return row;
}

void cushim_option_variable(const struct cushim_option_row *row,
                            char text[CUSHIM_OPTION_TEXT_BYTES]) {
    bool is_first = row == &rows[0]; /* `cushim` itself, whose variable is CUSHIM */
    int n = snprintf(text, CUSHIM_OPTION_TEXT_BYTES, "%s%s", is_first ? "" : PREFIX, row->name);
    for (int i = 0; i < n; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
}

static void *field_of(struct cushim_options *options, const struct cushim_option_row *row) {
    return (char *)options + row->offset;
}

void cushim_options_default(struct cushim_options *options) {
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        void *field = field_of(options, &rows[i]);
        switch (rows[i].type) {
        case CUSHIM_OPTION_BOOL:
            *(bool *)field = rows[i].default_number != 0;
            break;
        case CUSHIM_OPTION_BYTES:
            *(size_t *)field = rows[i].default_number;
            break;
        case CUSHIM_OPTION_AMOUNT:
            *(struct cushim_amount *)field = (struct cushim_amount){rows[i].default_number, false};
            break;
        case CUSHIM_OPTION_ENUM:
            *(int *)field = (int)rows[i].default_number;
            break;
        case CUSHIM_OPTION_LIMITS:
        case CUSHIM_OPTION_PATH:
        case CUSHIM_OPTION_TEXT:
            strcpy(field, rows[i].default_text);
            break;
        }
    }
}

static const char *read_bool(bool *field, const char *text) {
    static const char *const words[] = {"0", "1", "false", "true", "off", "on", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *field = i % 2;
            return NULL;
        }
    }
    return "is not one of 1/0, true/false, on/off, yes/no";
}

bool cushim_option_is_off(const char *text) {
    bool is_on;
    return !read_bool(&is_on, text) && !is_on;
}

static void put_bytes(size_t number, char text[CUSHIM_OPTION_TEXT_BYTES]) {
    static const char units[] = " KMGT";
    unsigned k = 0;
    for (; number && number % 1024 == 0 && units[k + 1]; k++)
        number /= 1024;
    snprintf(text, CUSHIM_OPTION_TEXT_BYTES, "%zu%.*s", number, k ? 1 : 0, units + k);
}

/* Write a mistake and what is allowed. */
static const char *say(char *phrase, const char *mistake, const char *allowed, const char *role) {
    snprintf(phrase, CUSHIM_OPTION_PHRASE_BYTES, "%s: %s%s", mistake, allowed, role);
    return phrase;
}

static const char *read_bytes(size_t *field, const char *text, size_t min, size_t max,
                              char *phrase) {
    char bound[CUSHIM_OPTION_TEXT_BYTES];
    size_t number = min;
    const char *wrong = cushim_size_read(&number, text);
    put_bytes(number < min ? min : max, bound);
    if (number < min)
        return say(phrase, "is too small", bound, " is the least");
    if (number > max)
        return max < SIZE_MAX - 1 ? say(phrase, "is too large", bound, " is the most")
                                  : "is too large";
    if (!wrong)
        *field = number;
    return wrong;
}

static const char *read_amount(struct cushim_amount *field, const char *text, size_t min,
                               size_t max, char *phrase) {
    size_t n_bytes = strlen(text), number = 0;
    if (max == SIZE_MAX && strcasecmp(text, "auto") == 0) {
        *field = cushim_amount_auto;
        return NULL;
    }
    if (min == 0 && strcasecmp(text, "off") == 0)
        text = "0", n_bytes = 1;
    if (!n_bytes || text[n_bytes - 1] != '%') {
        const char *wrong = read_bytes(&number, text, min, max, phrase);
        if (!wrong)
            *field = (struct cushim_amount){number, false};
        return wrong;
    }
    if (n_bytes < 2 || n_bytes > 4)
        return "is not a share such as 50%";
    for (size_t i = 0; i < n_bytes - 1; i++) {
        if (!isdigit((unsigned char)text[i]))
            return "is not a share such as 50%";
        number = number * 10 + (size_t)(text[i] - '0');
    }
    if (number > 100)
        return "is more than 100%";
    *field = (struct cushim_amount){number, true};
    return NULL;
}

/* The number at *at, which then is behind the colon after it; -1: there is none of a device. */
static int read_device(const char **at) {
    enum { MOST_DEVICES = 64 };
    char *end;
    long device = isdigit((unsigned char)**at) ? strtol(*at, &end, 10) : -1;
    if (device < 0 || device >= MOST_DEVICES || *end != ':')
        return -1;
    *at = end + 1;
    return (int)device;
}

/* One entry after the other; NULL, or the mistake. */
static const char *read_limits(const char *text, int wanted, struct cushim_amount *amount,
                               char *phrase) {
    char entry[CUSHIM_OPTION_TEXT_BYTES];
    uint64_t seen = 0;
    if (!strchr(text, ':'))
        return read_amount(amount, text, 0, SIZE_MAX - 1, phrase);
    if (strlen(text) >= sizeof entry)
        return "is too long";
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        struct cushim_amount found;
        int device = read_device(&at);
        if (device < 0)
            return "is not a list such as 0:8G,1:50%";
        if (seen >> device & 1)
            return "names a device twice";
        seen |= (uint64_t)1 << device;
        snprintf(entry, sizeof entry, "%.*s", (int)strcspn(at, ","), at);
        const char *wrong = read_amount(&found, entry, 0, SIZE_MAX - 1, phrase);
        if (wrong)
            return wrong;
        if (device == wanted)
            *amount = found;
    }
    return NULL;
}

struct cushim_amount cushim_limits_of(const char *limits, int device) {
    struct cushim_amount amount = cushim_amount_auto;
    char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    read_limits(limits, device, &amount, phrase);
    return amount;
}

static const char *set_limits(char field[CUSHIM_OPTION_TEXT_BYTES], const char *text,
                              char *phrase) {
    struct cushim_amount amount;
    const char *wrong = read_limits(text, 0, &amount, phrase);
    if (!wrong)
        snprintf(field, CUSHIM_OPTION_TEXT_BYTES, "%s", text);
    return wrong;
}

/* The place of a word in a list; -1 if it is not there. */
static int place_of_word(const char *text, const char *words) {
    size_t n_bytes = strlen(text);
    for (int i = 0; *words; i++) {
        size_t length = strcspn(words, "|");
        if (length == n_bytes && strncasecmp(text, words, length) == 0)
            return i;
        words += length + (words[length] == '|');
    }
    return -1;
}

static const char *read_enum(int *field, const char *text, const char *words, char *phrase) {
    bool is_on;
    int place = place_of_word(text, words), off = place_of_word("off", words),
        on = place_of_word("on", words);
    if (place < 0 && on >= 0 && off >= 0 && !read_bool(&is_on, text))
        place = is_on ? on : off;
    if (place < 0)
        return say(phrase, "is not one of the words it can be", words, "");
    *field = place;
    return NULL;
}

/* The capitals at the end of a form stand for something. */
static const char *read_text(char *field, const char *text, const char *form, char *phrase) {
    size_t n_bytes = strcspn(form, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (strlen(text) >= CUSHIM_OPTION_PATH_BYTES)
        return "is too long";
    if (*form && *text && (strncmp(text, form, n_bytes) != 0 || !text[n_bytes]))
        return say(phrase, "does not have the form", form, "");
    strcpy(field, text);
    return NULL;
}

const char *cushim_option_set(struct cushim_options *options, const struct cushim_option_row *row,
                              const char *text, char phrase[CUSHIM_OPTION_PHRASE_BYTES]) {
    void *field = field_of(options, row);
    switch (row->type) {
    case CUSHIM_OPTION_BOOL:
        return read_bool(field, text);
    case CUSHIM_OPTION_BYTES:
        if (strcmp(row->unit, "bytes") != 0 && (!*text || text[strspn(text, "0123456789")]))
            return "is not a whole number";
        return read_bytes(field, text, row->min, row->max, phrase);
    case CUSHIM_OPTION_AMOUNT:
        return read_amount(field, text, row->min, row->max, phrase);
    case CUSHIM_OPTION_LIMITS:
        return set_limits(field, text, phrase);
    case CUSHIM_OPTION_ENUM:
        return read_enum(field, text, row->unit, phrase);
    case CUSHIM_OPTION_PATH:
    case CUSHIM_OPTION_TEXT:
        return read_text(field, text, row->unit, phrase);
    }
    return "has no such type";
}

static void put_amount(const struct cushim_amount *amount, char text[CUSHIM_OPTION_TEXT_BYTES]) {
    if (amount->is_percent)
        snprintf(text, CUSHIM_OPTION_TEXT_BYTES, "%zu%%", amount->number);
    else if (amount->number == SIZE_MAX)
        strcpy(text, "auto");
    else
        put_bytes(amount->number, text);
}

static void put_word(const char *words, int place, char text[CUSHIM_OPTION_TEXT_BYTES]) {
    for (; place; place--)
        words = strchr(words, '|') + 1;
    snprintf(text, CUSHIM_OPTION_TEXT_BYTES, "%.*s", (int)strcspn(words, "|"), words);
}

const char *cushim_option_text(const struct cushim_options *options,
                               const struct cushim_option_row *row,
                               char text[CUSHIM_OPTION_TEXT_BYTES]) {
    const void *field = (const char *)options + row->offset;
    switch (row->type) {
    case CUSHIM_OPTION_BOOL:
        return *(const bool *)field ? "on" : "off";
    case CUSHIM_OPTION_AMOUNT:
        put_amount(field, text);
        return text;
    case CUSHIM_OPTION_BYTES:
        put_bytes(*(const size_t *)field, text);
        return text;
    case CUSHIM_OPTION_ENUM:
        put_word(row->unit, *(const int *)field, text);
        return text;
    case CUSHIM_OPTION_LIMITS:
    case CUSHIM_OPTION_PATH:
    case CUSHIM_OPTION_TEXT:
        return field;
    }
    return "";
}

void cushim_option_default_text(const struct cushim_option_row *row,
                                char text[CUSHIM_OPTION_TEXT_BYTES]) {
    struct cushim_options defaults;
    char room[CUSHIM_OPTION_TEXT_BYTES];
    cushim_options_default(&defaults);
    snprintf(text, CUSHIM_OPTION_TEXT_BYTES, "%s", cushim_option_text(&defaults, row, room));
}

bool cushim_option_is_set(const struct cushim_options *options,
                          const struct cushim_option_row *row) {
    char text[CUSHIM_OPTION_TEXT_BYTES], usual[CUSHIM_OPTION_TEXT_BYTES];
    cushim_option_default_text(row, usual);
    return strcmp(cushim_option_text(options, row, text), usual) != 0;
}

bool cushim_options_has(const char *entry) {
    static const char *const others[] = {
        "SIM_",        "LIBCUDA=", "LIBVULKAN=", "KERNELS=", "KERNEL_ARCH=",
        "KERNEL_PDL=", "STARTED=", "RUN=",       "WAITER=",  "LIVE_DIR="};
    if (strncmp(entry, "CUSHIM=", 7) == 0)
        return true;
    if (strncmp(entry, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strncmp(entry + sizeof PREFIX - 1, others[i], strlen(others[i])) == 0)
            return false;
    }
    return true;
}

static void tell_unknown(const char *name, const struct cushim_option_row *nearest) {
    char variable[CUSHIM_OPTION_TEXT_BYTES] = "";
    if (nearest)
        cushim_option_variable(nearest, variable);
    log_error("options", "%s is no option and is ignored%s%s%s", name,
              nearest ? " (did you mean " : "", variable, nearest ? "?)" : "");
}

static void read_entry(struct cushim_options *options, const char *entry) {
    size_t name_bytes = strcspn(entry, "=");
    const struct cushim_option_row *row =
        name_bytes == sizeof "CUSHIM" - 1
            ? &rows[0]
            : cushim_option_find(entry + sizeof PREFIX - 1, name_bytes - (sizeof PREFIX - 1));
    char name[CUSHIM_OPTION_TEXT_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)name_bytes, entry);
    if (!row || (row == &rows[0] && name_bytes != sizeof "CUSHIM" - 1)) {
        const char *word = entry + sizeof PREFIX - 1;
        tell_unknown(name, cushim_option_nearest(word, name_bytes - (sizeof PREFIX - 1)));
        return;
    }
    const char *value = entry + name_bytes + (entry[name_bytes] == '=');
    char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    const char *wrong = cushim_option_set(options, row, value, phrase);
    if (wrong) {
        char kept[CUSHIM_OPTION_TEXT_BYTES];
        cushim_option_default_text(row, kept);
        log_error("options", "%s=%s %s; it stays %s", name, value, wrong, *kept ? kept : "empty");
    }
}

static void read_if_option(const char *entry, void *options) {
    if (cushim_options_has(entry))
        read_entry(options, entry);
}

void cushim_options_load(struct cushim_options *options) {
    struct cushim_options defaults;
    cushim_options_default(&defaults);
    cushim_options_load_at(options, defaults.log);
}

void cushim_options_load_at(struct cushim_options *options, int log_level) {
    char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    cushim_options_default(options);
    options->log = log_level;
    cushim_log_set_level((enum cushim_log_level)log_level);
    /* The level first, so that CUSHIM_LOG=off silences complaints about the others. */
    const char *level = cushim_environment("CUSHIM_LOG");
    if (level)
        read_enum(&options->log, level, cushim_option_find("log", 3)->unit, phrase);
    cushim_log_set_level((enum cushim_log_level)options->log);
    cushim_environment_each(read_if_option, options);
}
