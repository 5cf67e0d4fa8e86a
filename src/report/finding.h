/* Findings of the check, as a page keeps them: the last ones, with their stacks. */
#pragma once

#include "report/report.h"

/* A context that nothing used; the text is printed with the fault, the call, and the device. */
#define CUSHIM_FINDING_STRAY      "stray context"
#define CUSHIM_FINDING_STRAY_HARM "nothing else uses its device"
#define CUSHIM_FINDING_STRAY_TEXT "%s: %s made a context on device %ld, which nothing else uses"

/* A forked child that used CUDA; the text is printed with the fault, the child, and its call. */
#define CUSHIM_FINDING_FORKED      "CUDA after fork"
#define CUSHIM_FINDING_FORKED_HARM "its calls fail"
#define CUSHIM_FINDING_FORKED_TEXT                                                                 \
    "%s: process %ld was forked from one that used CUDA, and called %s: its calls fail; spawn "    \
    "instead of fork"

/* The i-th of those that a page keeps, the oldest first, and then those of a process that did not
 * come to its end: contexts that nothing used, and a forked child that used CUDA.  Its texts end
 * whatever is in the page.  False: there is none, or it is being written. */
enum { CUSHIM_N_FINDINGS = CUSHIM_PAGE_FINDINGS + CUSHIM_MAX_DEVICES + 1 };
bool cushim_finding_get(const struct cushim_report *report, unsigned i,
                        struct cushim_page_finding *finding);

/* For people: a section (false: nothing was written); for programs: the members `harms`, `n_harms`
 * and `unchecked`. */
bool cushim_finding_text(struct cushim_writer *out, const struct cushim_report *report);
void cushim_finding_json(struct cushim_writer *out, const struct cushim_report *report);
