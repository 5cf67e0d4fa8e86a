/* Advice: what may be worth a try, each with the counters that it follows from. */
#pragma once

#include "report/report.h"

enum { CUSHIM_ADVICE_MOST = 3, CUSHIM_ADVICE_EVIDENCE = 3 };

struct cushim_advice {
    const char *id;
    char text[320];
    struct cushim_evidence {
        const char *name; /* NULL: the end */
        uint64_t value;
    } evidence[CUSHIM_ADVICE_EVIDENCE];
};

/* Returns the number of pieces of advice, the most useful first. */
unsigned cushim_advice_give(const struct cushim_report *report,
                            struct cushim_advice advice[CUSHIM_ADVICE_MOST]);

/* For people: lines of at most 80 columns.  For programs: a member. */
void cushim_advice_text(struct cushim_writer *out, const struct cushim_report *report);
void cushim_advice_json(struct cushim_writer *out, const struct cushim_report *report);
