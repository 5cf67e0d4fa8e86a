#include "tools/cushim/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cushim/usage.h"

static int unknown(const struct arguments *arguments, char **words, int *i) {
    enum { MOST = 16 };
    const char *names[MOST];
    size_t n = 0;
    if (arguments->take_other)
        return arguments->take_other(arguments->topic, words, i);
    for (const struct argument *row = arguments->rows; row->name && n < MOST; row++)
        names[n++] = row->name;
    return usage_unknown(arguments->topic, "option", words[*i], names, n);
}

static int take_number(const char *topic, const struct argument *row, const char *value) {
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    bool is_number = *value >= '0' && *value <= '9' && (*value != '0' || !value[1]) && !*end;
    if (!is_number || number < row->least || number > row->most)
        return usage_error(topic, "%s=%s: not a whole number from %u to %u", row->name, value,
                           row->least, row->most);
    *row->number = (unsigned)number;
    return EXIT_WELL;
}

static int take_word(const char *topic, const struct argument *row, const char *value) {
    int n = 0;
    for (; row->words[n]; n++) {
        if (strcmp(row->words[n], value) == 0) {
            *row->word = n;
            return EXIT_WELL;
        }
    }
    char known[256] = "";
    for (int i = 0, at = 0; i < n && at < (int)sizeof known; i++)
        at += snprintf(known + at, sizeof known - (size_t)at, "%s%s", i ? ", " : "", row->words[i]);
    return usage_error(topic, "%s=%s is not one of %s", row->name, value, known);
}

/* Take the option words[*i] by a row of the table.  Returns an exit code. */
static int take(const struct arguments *arguments, char **words, int *i) {
    const char *word = words[*i], *value = NULL;
    size_t n_bytes = strcspn(word, "=");
    const struct argument *row = arguments->rows;
    while (row->name && (strncmp(row->name, word, n_bytes) != 0 || row->name[n_bytes] ||
                         (row->flag && word[n_bytes] && row[1].name != row->name)))
        row++;
    if (!row->name)
        return unknown(arguments, words, i);
    if (row->flag && !word[n_bytes]) {
        *row->flag = true;
        return EXIT_WELL;
    }
    row += row->flag != NULL; /* the same option with a value */
    if (word[n_bytes])
        value = word + n_bytes + 1;
    else if (words[*i + 1])
        value = words[++*i];
    if (!value || !*value)
        return usage_error(arguments->topic, "%s needs a value", row->name);
    if (row->text)
        *row->text = value;
    return row->number ? take_number(arguments->topic, row, value)
           : row->word ? take_word(arguments->topic, row, value)
           : row->take ? row->take(arguments->context, value)
                       : EXIT_WELL;
}

int arguments_read(const struct arguments *arguments, int argc, char **argv) {
    const char *topic = arguments->topic, *of_words = arguments->of_words;
    int n = 0;
    bool is_over = false; /* "--" was there */
    for (int i = 1; i < argc; i++) {
        bool is_option = *argv[i] == '-' && argv[i][1] && !is_over;
        if (is_option && strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (is_option && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            usage_print(stdout, topic);
            exit(usage_end(EXIT_WELL));
        } else if (is_option) {
            int code = take(arguments, argv, &i);
            if (code != EXIT_WELL)
                return -code;
        } else if (arguments->program) {
            return i;
        } else {
            argv[n++] = argv[i];
        }
    }
    if (arguments->program == ARGUMENTS_PROGRAM)
        return -usage_error(topic, "%s needs a program", topic);
    if (arguments->program)
        return argc;
    if (n < arguments->least_words)
        return -usage_error(topic, "%s needs %s", topic, of_words);
    if (n > arguments->most_words && !of_words)
        return -usage_error(topic, "%s takes no name: `%s`", topic, argv[arguments->most_words]);
    if (n > arguments->most_words)
        return -usage_error(topic, "%s takes %s, and not also `%s`", topic, of_words,
                            argv[arguments->most_words]);
    return n;
}
