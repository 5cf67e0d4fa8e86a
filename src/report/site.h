/*
 * Sites: the places in the program that asked for memory, and what they have of it, sampled.
 *
 * A request of n bytes is sampled with the probability n / sample_bytes, and always from that size
 * on.  A sampled request counts as sample_bytes, and as so many blocks of its size as that makes.
 * So sums are right on average whatever the sizes are, and exact for large requests.
 *
 * Written by one thread at a time, by relaxed stores; read by any.
 */
#ifndef CUSHIM_REPORT_SITE_H
#define CUSHIM_REPORT_SITE_H

#include "report/report.h"

/* One block in the counts of blocks, which a sample may be a share of. */
enum { CUSHIM_SITE_WHOLE = 1024 };

/* The site of a stack whose key, other than 0, is given, or a row that is free for it, whose key is
 * then to be set last.  NULL: there is none left. */
struct cushim_page_site *cushim_site_find(struct cushim_page_sites *sites, uint64_t key);

/* A block of n_bytes that was taken as a sample lives, or lives no more, so long after the start of
 * the process. */
void cushim_site_add(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                     uint64_t run_ns);
void cushim_site_subtract(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                          uint64_t run_ns);

/* A site as it is told. */
struct cushim_site {
    uint64_t n_live, live_bytes, peak_live_bytes;
    uint64_t error_bytes; /* the standard error of live_bytes; 0: it was counted, not sampled */
    bool is_growing;      /* more lived at the end of each quarter of the run than at the last */
    uint64_t n_frames;
    struct cushim_page_frame frames[CUSHIM_PAGE_SITE_FRAMES];
};

/* The i-th row; whatever is in it, its texts end.  False: it is none. */
bool cushim_site_get(const struct cushim_report *report, unsigned i, struct cushim_site *site);

/* What all sites that grow have, and how many they are. */
struct cushim_site_growth {
    uint64_t n_sites, n_live, live_bytes;
};
struct cushim_site_growth cushim_site_growth(const struct cushim_report *report);

/* For people: a section of the places that have most.  For programs: a member with all of them.
 * Nothing where sites were not wished. */
void cushim_site_text(struct cushim_writer *out, const struct cushim_report *report);
void cushim_site_json(struct cushim_writer *out, const struct cushim_report *report);

#endif
