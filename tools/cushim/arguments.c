#include "tools/cushim/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cushim/usage.h"

/* A command's options, and what it does with those that have no row. */
struct arguments {
    const char *topic;
    const struct argument *rows;
    void *context;
    arguments_other_fn *take_other;
};

static void take_unknown(const struct arguments *arguments, char **words, int *i) {
    enum { MOST = 16 };
    const char *names[MOST];
    size_t n = 0;
    if (arguments->take_other) {
        arguments->take_other(arguments->topic, words, i);
        return;
    }
    for (const struct argument *row = arguments->rows; row->name && n < MOST; row++)
        names[n++] = row->name;
    usage_unknown(arguments->topic, "option", words[*i], names, n);
}

static void take_number(const char *topic, const struct argument *row, const char *value) {
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    bool is_number = *value >= '0' && *value <= '9' && (*value != '0' || !value[1]) && !*end;
    if (!is_number || number < row->least || number > row->most)
        usage_error(topic, "%s=%s: not a whole number from %u to %u", row->name, value, row->least,
                    row->most);
    *row->number = (unsigned)number;
}

static void take_word(const char *topic, const struct argument *row, const char *value) {
    char known[256] = "";
    for (int i = 0, at = 0; row->words[i]; i++) {
        if (strcmp(row->words[i], value) == 0) {
            *row->word = i;
            return;
        }
        at += snprintf(known + at, sizeof known - (size_t)at, "%s%s", i ? ", " : "", row->words[i]);
    }
    usage_error(topic, "%s=%s is not one of %s", row->name, value, known);
}

/* Take the option words[*i] by a row of the table. */
static void take(const struct arguments *arguments, char **words, int *i) {
    const char *word = words[*i], *value = NULL;
    size_t n_bytes = strcspn(word, "=");
    const struct argument *row = arguments->rows;
    while (row->name && (strncmp(row->name, word, n_bytes) != 0 || row->name[n_bytes] ||
                         (row->flag && word[n_bytes] && row[1].name != row->name)))
        row++;
    if (!row->name) {
        take_unknown(arguments, words, i);
        return;
    }
    if (row->flag && !word[n_bytes]) {
        *row->flag = true;
        return;
    }
    row += row->flag != NULL; /* the same option with a value */
    if (word[n_bytes])
        value = word + n_bytes + 1;
    else if (words[*i + 1])
        value = words[++*i];
    if (!value || !*value)
        usage_error(arguments->topic, "%s needs a value", row->name);
    if (row->text)
        *row->text = value;
    else if (row->number)
        take_number(arguments->topic, row, value);
    else if (row->word)
        take_word(arguments->topic, row, value);
    else
        row->take(arguments->context, value);
}

/* Returns how many words are left, which it moves to argv[0] and on, or the index of the first one
 * if all options stand in front of it. */
static int read_all(const struct arguments *arguments, bool has_program, int argc, char **argv) {
    int n = 0;
    bool is_over = false; /* "--" was there */
    for (int i = 1; i < argc; i++) {
        bool is_option = *argv[i] == '-' && argv[i][1] && !is_over;
        if (is_option && strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (is_option && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            usage_print(stdout, arguments->topic);
            exit(usage_end(EXIT_WELL));
        } else if (is_option) {
            take(arguments, argv, &i);
        } else if (has_program) {
            return i;
        } else {
            argv[n++] = argv[i];
        }
    }
    return has_program ? argc : n;
}

int arguments_words(const char *topic, const struct argument *rows, void *context, int least,
                    int most, const char *of_words, int argc, char **argv) {
    static const struct argument none;
    int n =
        read_all(&(struct arguments){topic, rows ? rows : &none, context, NULL}, false, argc, argv);
    if (n < least)
        usage_error(topic, "%s needs %s", topic, of_words);
    if (n > most && !of_words)
        usage_error(topic, "%s takes no name: `%s`", topic, argv[most]);
    if (n > most)
        usage_error(topic, "%s takes %s, and not also `%s`", topic, of_words, argv[most]);
    return n;
}

int arguments_program(const char *topic, const struct argument *rows, void *context,
                      arguments_other_fn *take_other, bool is_needed, int argc, char **argv) {
    int first = read_all(&(struct arguments){topic, rows, context, take_other}, true, argc, argv);
    if (first == argc && is_needed)
        usage_error(topic, "%s needs a program", topic);
    return first;
}

bool arguments_time(const char *text, uint64_t *ns) {
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6},   {"s", 1e9},
                 {"", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    char *unit;
    double number = strtod(text, &unit);
    for (size_t i = 0; unit != text && i < sizeof units / sizeof *units; i++) {
        double n = number * units[i].ns;
        if (strcmp(unit, units[i].name) == 0 && n >= 1 && n < 1e18) {
            *ns = (uint64_t)n;
            return true;
        }
    }
    return false;
}
