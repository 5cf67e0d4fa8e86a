#include "tools/cushim/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cushim/usage.h"

static int unknown(const struct arguments *arguments, const char *option) {
    enum { MOST = 16 };
    const char *names[MOST];
    size_t n = 0;
    if (arguments->take_other)
        return arguments->take_other(arguments->topic, option);
    for (const struct argument *row = arguments->rows; row->name && n < MOST; row++)
        names[n++] = row->name;
    return usage_unknown(arguments->topic, "option", option, names, n);
}

/* Take the option argv[*i], and the next word if that is its value. */
static int take_option(const struct arguments *arguments, int argc, char **argv, int *i) {
    const char *word = argv[*i], *value = NULL;
    size_t n_bytes = strcspn(word, "=");
    const struct argument *row = arguments->rows;
    while (row->name && (strncmp(row->name, word, n_bytes) != 0 || row->name[n_bytes] ||
                         (row->flag && word[n_bytes])))
        row++;
    if (!row->name)
        return unknown(arguments, word);
    if (row->flag) {
        *row->flag = true;
        return EXIT_WELL;
    }
    if (word[n_bytes])
        value = word + n_bytes + 1;
    else if (*i + 1 < argc)
        value = argv[++*i];
    if (!value || !*value)
        return usage_error(arguments->topic, "%s needs a value", row->name);
    if (row->text)
        *row->text = value;
    return row->take ? row->take(arguments->context, value) : EXIT_WELL;
}

int arguments_read(const struct arguments *arguments, int argc, char **argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        bool is_end = strcmp(argv[i], "--") == 0;
        if (arguments->take_other && (is_end || *argv[i] != '-')) {
            if (i + is_end < argc)
                return i + is_end;
            break;
        }
        if (*argv[i] != '-' || !argv[i][1]) {
            argv[n++] = argv[i];
            continue;
        }
        int code = take_option(arguments, argc, argv, &i);
        if (code != EXIT_WELL)
            return -code;
    }
    if (arguments->take_other)
        return -usage_error(arguments->topic, "%s needs a program", arguments->topic);
    return n;
}

bool arguments_number(const char *text, unsigned least, unsigned most, unsigned *number) {
    char *end;
    unsigned long read = strtoul(text, &end, 10);
    bool is_number = *text >= '0' && *text <= '9' && (*text != '0' || !text[1]) && !*end;
    *number = (unsigned)read;
    return is_number && read >= least && read <= most;
}
