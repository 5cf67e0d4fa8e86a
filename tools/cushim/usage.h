/* Prints help, and one line for a mistake. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Exit codes.  `run` exits with the program's own otherwise.  125 to 127 mean the same as for
 * env(1). */
enum {
    EXIT_WELL = 0,
    EXIT_WRONG = 1,      /* doctor: something is wrong */
    EXIT_USAGE = 2,      /* unknown command, option or value; nothing was started */
    EXIT_OURS = 125,     /* cushim itself failed before it could start the program */
    EXIT_CANNOT = 126,   /* the program was found and cannot be executed */
    EXIT_NOT_FOUND = 127 /* no such program */
};

/* Write the page of `topic`, which is tools/cushim/help/TOPIC.txt.  If there is no such page, the
 * process ends as usage_unknown does. */
void usage_print(FILE *out, const char *topic);

/* Print words in lines of at most 80 columns, all but the first indented by `lead`.  A longer word
 * is not cut, because users may copy it. */
void usage_words(FILE *out, int lead, const char *text);

/* Print `head`, and beside it a text in lines of at most 80 columns. */
void usage_beside(FILE *out, const char *head, const char *text);

/* A mistake in the command line: print one line on standard error, "cushim: ...; try `cushim help
 * <topic>`", and end the process with EXIT_USAGE, because nothing was started yet. */
__attribute__((noreturn, format(printf, 2, 3))) void usage_error(const char *topic,
                                                                 const char *format, ...);

/* The same for an unknown word: "no <what> `word` (did you mean `...`?)", with the most similar
 * known word. */
_Noreturn void usage_unknown(const char *topic, const char *what, const char *word,
                             const char *const *known, size_t n_known);

/* Print one line on standard error: "cushim: ...".  A function can end with it: returns false, or
 * the exit code. */
__attribute__((format(printf, 1, 2))) bool complain(const char *format, ...);
#define complain_as(code, ...) (complain(__VA_ARGS__), (code))

/* Say that a file, or standard output if `path` is NULL, cannot be written.  Nothing is said if the
 * reader of standard output left, as `head` does.  Returns EXIT_OURS. */
int usage_unwritten(const char *path, int error);

/* Write the rest to standard output.  Returns EXIT_WELL, or as usage_unwritten. */
struct cushim_writer;
int usage_flush(struct cushim_writer *out);

/* Write what stdio holds to standard output.  Returns false if this or an earlier call failed. */
bool usage_flush_text(void);

/* The same at the end of the command, and say if it failed.  Returns `code`, unless that is
 * EXIT_WELL and it failed. */
int usage_end(int code);
