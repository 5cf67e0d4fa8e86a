/* Reads the command line of a command by a table of its options. */
#ifndef CUSHIM_TOOLS_ARGUMENTS_H
#define CUSHIM_TOOLS_ARGUMENTS_H

#include <stdbool.h>

/* An option, and where its value goes.  A value is given as --NAME=VALUE, or is the next word. */
struct argument {
    const char *name;
    bool *flag;        /* this option has no value */
    const char **text; /* the last value that was given */
    /* Called for each value.  Returns EXIT_WELL, or another exit code after a message. */
    int (*take)(void *context, const char *value);
};

struct arguments {
    const char *topic;
    const struct argument *rows; /* a row without a name ends them */
    void *context;               /* for their `take` */
    /*
     * Set for a command that starts PROGRAM [ARGUMENT ...].  It takes each option that has no row,
     * and returns as `take` does.  It is NULL if the words are files or processes; options may
     * then stand between them.
     */
    int (*take_other)(const char *topic, const char *option);
};

/*
 * Read the words from argv[1] on.  Returns the number of words that are not options, and moves them
 * to argv[0] and on.  For a command that starts a program it returns the index of the program's
 * name.  If something is wrong, it prints a message and returns minus an exit code.
 */
int arguments_read(const struct arguments *arguments, int argc, char **argv);

/* Read a decimal number.  Returns false if the text is no number, or is out of range. */
bool arguments_number(const char *text, unsigned least, unsigned most, unsigned *number);

#endif
