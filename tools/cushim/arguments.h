/* Reads the command line of a command by a table of its options. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An option, and where its value goes.  A value is given as --NAME=VALUE, or is the next word. */
struct argument {
    const char *name;
    bool *flag;        /* this option has no value */
    const char **text; /* the last value that was given */
    unsigned *number;  /* the same, if it is from `least` to `most` */
    unsigned least, most;
    int *word;                                      /* the place of the value among `words` */
    const char *const *words;                       /* up to NULL */
    void (*take)(void *context, const char *value); /* called for each value */
};

/* Takes the option words[*i] if that has no row; if its value is the next word, it adds 1 to *i. */
typedef void arguments_other_fn(const char *topic, char **words, int *i);

/*
 * Read the words from argv[1] on.  A row without a name ends `rows`, which may be NULL, and
 * `context` is for their `take`.  If something is wrong, the process ends with usage_error.  If
 * help is asked for, it prints the page and ends.
 *
 * arguments_words returns the number of words that are no options, at least `least` and at most
 * `most` of them, and moves them to argv[0] and on; `of_words` says what these are.
 * arguments_program is for commands that start PROGRAM [ARGUMENT ...], and returns the index of the
 * program's name, or argc if there is none and none is needed.
 */
int arguments_words(const char *topic, const struct argument *rows, void *context, int least,
                    int most, const char *of_words, int argc, char **argv);
int arguments_program(const char *topic, const struct argument *rows, void *context,
                      arguments_other_fn *take_other, bool is_needed, int argc, char **argv);

/* Read a time such as 1.5s, 200ms, 5m (or 5min) or 1h; a number alone is in seconds.  False: it is
 * none. */
bool arguments_time(const char *text, uint64_t *ns);
