/* The command line of a command, read by the table of its options. */
#ifndef CUSHIM_TOOLS_ARGUMENTS_H
#define CUSHIM_TOOLS_ARGUMENTS_H

#include <stdbool.h>

/* An option, and where its value goes.  A value is --NAME=VALUE, or the next word. */
struct argument {
    const char *name;
    bool *flag;        /* this option has no value */
    const char **text; /* the last value that was given */
    /* Called for each value.  EXIT_WELL, or an exit code, already explained. */
    int (*take)(void *context, const char *value);
};

struct arguments {
    const char *topic;
    const struct argument *rows; /* the end is a row without a name */
    void *context;               /* of their `take` */
    /*
     * Of a command that starts PROGRAM [ARGUMENT ...]: takes options that are no rows, and returns
     * as `take` does.  NULL: the words are files or processes, and options may stand between them.
     */
    int (*take_other)(const char *topic, const char *option);
};

/*
 * Read argv[1] and all behind it.  Returns the number of words that are no options, which are then
 * argv[0] and so on; for a command that starts a program, the index of its name.  If something is
 * wrong, minus an exit code, already explained.
 */
int arguments_read(const struct arguments *arguments, int argc, char **argv);

/* Read a decimal number; false: it is none, or out of range. */
bool arguments_number(const char *text, unsigned least, unsigned most, unsigned *number);

#endif
