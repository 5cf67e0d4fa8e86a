/* Reads the command line of a command by a table of its options. */
#pragma once

#include <stdbool.h>

/* An option, and where its value goes.  A value is given as --NAME=VALUE, or is the next word. */
struct argument {
    const char *name;
    bool *flag;        /* this option has no value */
    const char **text; /* the last value that was given */
    unsigned *number;  /* the same, if it is from `least` to `most` */
    unsigned least, most;
    int *word;                /* the place of the value among `words` */
    const char *const *words; /* up to NULL */
    /* Called for each value.  Returns EXIT_WELL, or another exit code after a message. */
    int (*take)(void *context, const char *value);
};

struct arguments {
    const char *topic;
    const struct argument *rows; /* a row without a name ends them */
    void *context;               /* for their `take` */
    /* How many words may be no options, and what these are, in words. */
    int least_words, most_words;
    const char *of_words;
    /* The words are PROGRAM [ARGUMENT ...]: all options stand in front of them. */
    enum { ARGUMENTS_NO_PROGRAM, ARGUMENTS_MAY_HAVE_PROGRAM, ARGUMENTS_PROGRAM } program;
    /*
     * It takes the option words[*i] if that has no row, and returns as `take` does; if its value is
     * the next word, it adds 1 to *i.
     */
    int (*take_other)(const char *topic, char **words, int *i);
};

/*
 * Read the words from argv[1] on.  Returns the number of words that are not options, and moves them
 * to argv[0] and on.  For a command that starts a program it returns the index of the program's
 * name, or argc if there is none and none is needed.  If something is wrong, it prints a message
 * and returns minus an exit code.  If help is asked for, it prints the page and ends the process.
 */
int arguments_read(const struct arguments *arguments, int argc, char **argv);
