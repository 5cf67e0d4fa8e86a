/*
 * Sites: the places in the program that requested memory, and what they have of it, sampled.
 *
 * A request of n bytes is sampled with the probability n / sample_bytes, and always from that size
 * on.  A sampled request counts as sample_bytes, and as that many bytes' worth of blocks of its
 * size. So sums are right on average whatever the sizes are, and exact for large requests.
 *
 * Written by one thread at a time, by relaxed stores; read by any.
 */
#pragma once

#include "report/report.h"

/* One block in the counts of blocks, because a sample may be a part of one. */
enum { CUSHIM_SITE_WHOLE = 1024 };

/* The site of a stack with this key, which is not 0, or a free row, whose key the caller sets last.
 * NULL: there is none left. */
struct cushim_page_site *cushim_site_find(struct cushim_page_sites *sites, uint64_t key);

/* A block of n_bytes that was sampled begins or ends its life at this time after the start of the
 * process. */
void cushim_site_add(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                     uint64_t run_ns);
void cushim_site_subtract(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                          uint64_t run_ns);

/* A site as it is reported. */
struct cushim_site {
    uint64_t n_live, live_bytes, peak_live_bytes;
    uint64_t error_bytes; /* the standard error of live_bytes; 0: it was counted, not sampled */
    bool grows;           /* it may leak: cushim_site_grows */
    uint64_t hour_bytes;  /* by how much, as cushim_site_grows says */
    bool is_spilled;      /* its blocks lie on the host */
    uint64_t n_frames;
    struct cushim_page_frame frames[CUSHIM_PAGE_SITE_FRAMES];
};

/* The i-th row; its texts end whatever is in it.  False: the row is free. */
bool cushim_site_get(const struct cushim_report *report, unsigned i, struct cushim_site *site);

/*
 * Whether live bytes grow.  They do if what was live at n moments, from the first with any, makes
 * four quarters, the least of each is above the most of the one before by more than slack_bytes,
 * and they grow by 1 % of peak_bytes or more.  Moments are counted in events, because equal times
 * would hide a leak behind a pause.  But of a program that loads and then computes all events are
 * growth.  So an eighth of it must also come in the last quarter of the time until end_ns; less
 * than a second counts as one, because a busy machine may stop a program that long at its end.
 * *hour_bytes is then the growth in an hour, or 0 if that time is less than a minute, because that
 * says nothing of an hour.
 */
bool cushim_site_grows(const uint64_t live_bytes[], const uint64_t moments_ns[], unsigned n,
                       uint64_t end_ns, uint64_t slack_bytes, uint64_t peak_bytes,
                       uint64_t *hour_bytes);

/* "may leak, +120 MiB/h", or "may leak" if the growth in an hour is not known.  Returns `text`. */
char *cushim_site_leak(char text[CUSHIM_SOME_BYTES], uint64_t hour_bytes);
#define CUSHIM_LEAK(hour_bytes) cushim_site_leak((char[CUSHIM_SOME_BYTES]){0}, (hour_bytes))

/* What all sites that grow have, and their number. */
struct cushim_site_growth {
    uint64_t n_sites, n_live, live_bytes, hour_bytes;
};
struct cushim_site_growth cushim_site_growth(const struct cushim_report *report);

/* For people: a section of the places with most bytes.  For programs: a member with all of them.
 * Nothing if sites were not wanted. */
void cushim_site_text(struct cushim_writer *out, const struct cushim_report *report);
void cushim_site_json(struct cushim_writer *out, const struct cushim_report *report);

/* For people: what is live by the library that asked (library.h), of all sites. */
void cushim_site_libraries(struct cushim_writer *out, const struct cushim_report *report);
