/*
 * The numbers of a run by their names, and conditions on them:
 * [KIND.]NAME(>|<|=)[+|-]NUMBER[%|UNIT].
 *
 * With a sign, NUMBER is compared with the change between the two runs; without one, with the value
 * of the second run.  Names are those of the counters in the JSON of reports; `_bytes` at their end
 * may be left out.
 */
#ifndef CUSHIM_TOOLS_CONDITION_H
#define CUSHIM_TOOLS_CONDITION_H

#include "report/report.h"

/* The counters of all processes of a run.  A peak is the largest of a process; the other numbers
 * are sums. */
struct run_numbers {
    bool has_device[CUSHIM_MAX_DEVICES];
    struct cushim_report sum;
    bool is_recorded; /* one process has a recording, which lacks some counters */
    size_t n_processes;
};

void run_numbers_add(struct run_numbers *numbers, const struct cushim_report *report);

enum condition_unit { CONDITION_COUNT, CONDITION_BYTES, CONDITION_NS };

/* A number with a name. */
struct condition_name {
    enum cushim_kind kind;
    const char *name; /* as in the JSON; static */
    enum condition_unit unit;
    size_t counter; /* of struct cushim_mem_stats, or a part of what is held */
    enum { CONDITION_FIELD, CONDITION_ROUNDING, CONDITION_SPARE, CONDITION_IDLE } part;
};

/* Find a name of n_bytes.  Returns false if it is unknown; `near` is then a similar name, or
 * NULL. */
bool condition_find(struct condition_name *found, const char *name, size_t n_bytes,
                    const char **near);

/* Does a recording have this number? */
bool condition_is_recorded(const struct condition_name *name);

uint64_t condition_value(const struct run_numbers *numbers, int device,
                         const struct condition_name *name);

struct condition {
    struct condition_name name;
    char text[96];      /* as given */
    char relation;      /* >, < or = */
    char sign;          /* +, - or 0 */
    bool is_share;      /* in per cent of the first run */
    long double number; /* not negative */
};

/* Read a condition of n_bytes.  Returns false if it is wrong; `wrong` then has the reason. */
bool condition_read(struct condition *condition, const char *text, size_t n_bytes, char wrong[160]);

bool condition_holds(const struct condition *condition, uint64_t before, uint64_t after);

/* Write a value for people. */
char *condition_put(char text[CUSHIM_AMOUNT_BYTES], enum condition_unit unit, uint64_t value);

#endif
