/*
 * The options table as a person meets it: arguments of `cushim run`, help,
 * docs/reference/options.md, and the variables that are set.
 */
#ifndef CUSHIM_TOOLS_SETTINGS_H
#define CUSHIM_TOOLS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the name of a variable, and of a path; as base/options.h has them. */
enum { SETTINGS_VARIABLE_BYTES = 64, SETTINGS_PATH_BYTES = 1024 };

/*
 * Read "--name=value" or "--name" and put CUSHIM_<NAME> into the environment.  True where it was
 * right; else nothing is set and `wrong` says why, as one phrase.
 */
bool settings_take(const char *argument, char *wrong, size_t wrong_bytes);

/*
 * Is `entry` (NAME=value) a variable of the options?  Those of the software device are not.  For
 * one that is, *wrong is NULL or says as a phrase (static) what is wrong with it.
 */
bool settings_is_ours(const char *entry, const char **wrong);

/* What is wrong with a variable that no option has. */
extern const char settings_no_option[];

/* For an entry that is no option: the variable that is nearest, if any is near. */
bool settings_nearest(const char *entry, char text[static SETTINGS_VARIABLE_BYTES]);

/* Is everything turned off by CUSHIM=0 and its like? */
bool settings_are_off(void);

/* Is an exit report asked for, or the log at level info, so that a line should say where no memory
 * was used?  Not where the log is off: nothing more is said on standard error then. */
bool settings_want_report(void);

/* Is an exit report asked for, and where is it to go? */
bool settings_report(char where[static SETTINGS_PATH_BYTES]);

/* Is the log at level info or above? */
bool settings_are_told(void);

/* The options as a list for a terminal, four blanks in. */
void settings_print_list(FILE *out);

/* The options of the software device, as rows of the page of `cushim sim`. */
void settings_print_sim(FILE *out);

/* The text of docs/reference/options.md. */
void settings_print_markdown(FILE *out);

#endif
