/*
 * The options table for people: it reads arguments of `cushim run`, sets variables, and prints help
 * and docs/reference/options.md.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "tools/cushim/arguments.h"

/* Bytes of the name of a variable, and of a path; as in base/options.h. */
enum { SETTINGS_VARIABLE_BYTES = 64, SETTINGS_PATH_BYTES = 1024 };

/* Read words[*at], "--name=value" or "--name", and put CUSHIM_<NAME> into the environment.  If it
 * needs a value and has none, the next word is its value, and *at becomes the place of that. */
arguments_other_fn settings_take;

/* Is `word` an option of `cushim run`, with a value or without? */
bool settings_has(const char *word);

/* May `value` have been meant as the value of "--name", although it stands apart? */
bool settings_would_take(const char *option, const char *value);

/*
 * Is `entry` (NAME=value) a variable of the options?  Those of the software device are not.  If it
 * is, *wrong is NULL, or the mistake as a phrase (static).  If no option has the name, `nearest` is
 * the most similar variable; otherwise it is "".
 */
bool settings_is_ours(const char *entry, const char **wrong,
                      char nearest[static SETTINGS_VARIABLE_BYTES]);

/* Is everything turned off, by CUSHIM=0 or the like? */
bool settings_are_off(void);

/* Is a line wanted if the program used no memory?  It is if a report is asked for, or if the log
 * has level info.  It is not if the log is off, because then nothing goes to standard error. */
bool settings_want_report(void);

/* The same for the program itself: also if the check is asked for. */
bool settings_want_word(void);

/* Is an exit report asked for?  `where` is then its destination. */
bool settings_report(char where[static SETTINGS_PATH_BYTES]);

/* Is the log at level info or above? */
bool settings_are_told(void);

/* Print the options as a list for a terminal, indented by four blanks. */
void settings_print_list(FILE *out);

/* Print the options of the software device, as rows of the page of `cushim sim`. */
void settings_print_sim(FILE *out);

/* Print both as rows of markdown tables. */
void settings_print_table(FILE *out);
void settings_print_sim_table(FILE *out);
