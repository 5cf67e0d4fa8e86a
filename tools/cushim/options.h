/*
 * The options table for people: arguments of `cushim run`, help, docs/reference/options.md, and the
 * variables that are set.
 */
#ifndef CUSHIM_TOOLS_SETTINGS_H
#define CUSHIM_TOOLS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the name of a variable, and of a path; as in base/options.h. */
enum { SETTINGS_VARIABLE_BYTES = 64, SETTINGS_PATH_BYTES = 1024 };

/*
 * Read "--name=value" or "--name" and put CUSHIM_<NAME> into the environment.  False: nothing is
 * set, and `wrong` has the reason as one phrase.
 */
bool settings_take(const char *argument, char *wrong, size_t wrong_bytes);

/*
 * Is `entry` (NAME=value) a variable of the options?  Those of the software device are not.  For
 * one that is, *wrong is NULL or the mistake as a phrase (static).
 */
bool settings_is_ours(const char *entry, const char **wrong);

/* The mistake in a variable that no option has. */
extern const char settings_no_option[];

/* For an entry that is no option: the nearest variable, if any is near. */
bool settings_nearest(const char *entry, char text[static SETTINGS_VARIABLE_BYTES]);

/* Is everything turned off, by CUSHIM=0 or the like? */
bool settings_are_off(void);

/* Is an exit report asked for, or the log at level info, so that a line should say if no memory was
 * used?  False if the log is off, because then nothing more goes to standard error. */
bool settings_want_report(void);

/* Is an exit report asked for, and where does it go? */
bool settings_report(char where[static SETTINGS_PATH_BYTES]);

/* Is the log at level info or above? */
bool settings_are_told(void);

/* The options as a list for a terminal, indented by four blanks. */
void settings_print_list(FILE *out);

/* The options of the software device, as rows of the page of `cushim sim`. */
void settings_print_sim(FILE *out);

/* Both as rows of tables of markdown. */
void settings_print_table(FILE *out);
void settings_print_sim_table(FILE *out);

#endif
