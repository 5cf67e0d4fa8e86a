/*
 * File names with places in them: %p process, %h host, %r rank (or the process, if no known
 * launcher gave one), %n a number, %q{NAME} a variable of the environment, %%.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The values of the places. */
struct cushim_path_places {
    long process;
    long rank; /* -1: unknown */
    unsigned number;
};

/* The rank that a launcher gave this process, and the number of ranks; -1 if unknown. */
long cushim_path_rank(void);
long cushim_path_ranks(void);

/* Is an entry of the environment ("NAME=VALUE") one that these two are read from? */
bool cushim_path_is_of_launcher(const char *entry);

/*
 * Expand `pattern` into out; false if it does not fit in cap bytes with its final 0.  A variable
 * names no folder: its slashes become _.  An unknown place, or a variable that is not set, stays as
 * it is written.
 */
bool cushim_path_expand(char *out, size_t cap, const char *pattern,
                        const struct cushim_path_places *places);

/*
 * Put `place` before the ending of a name: "report.json" with "%p" becomes "report-%p.json".  False
 * if it does not fit in cap bytes.
 */
bool cushim_path_tell_apart(char *out, size_t cap, const char *name, const char *place);

/* Does a name end in this? */
bool cushim_path_ends_in(const char *name, const char *ending);

/* Does a pattern have one of these places ("pr": process or rank)?  %% is none. */
bool cushim_path_has(const char *pattern, const char *places);
