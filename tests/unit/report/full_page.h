/* A page in which every counter is as large as one can be in earnest, and its text. */
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report/report.h"

/* Fill the counters of two devices with `n` each. */
static inline void full_page(struct cushim_report *report, uint64_t n) {
    struct cushim_page *page = &report->page;
    for (int device = 0; device < 2; device++) {
        atomic_uint_fast64_t *counters = (atomic_uint_fast64_t *)page->stats[device];
        for (size_t i = 0; i < sizeof page->stats[device] / (sizeof *counters); i++)
            atomic_store(&counters[i], n);
        strcpy(page->device_names[device], "NVIDIA \"quoted\" \\ \x01 H200");
        strcpy(page->device_places[device], "0000:1B:00.0");
    }
    atomic_uint_fast64_t *counters = (atomic_uint_fast64_t *)&page->copies;
    for (size_t i = 0; i < sizeof page->copies / (sizeof *counters); i++)
        atomic_store(&counters[i], n);
    page->n_foreign_frees = page->n_refused_handles = page->n_stuck_blocks = page->n_bypassed = n;
    page->head.is_relaxed = 1;
    page->head.process = 4194304;
    page->head.rank = 99999;
    page->head.ranks = 100000;
    strcpy(page->head.program, "train");
    strcpy(page->head.version, "0.1.0");
    report->run_ns = n;
}

static inline void full_page_add_argument(struct cushim_page_head *head, const char *text) {
    strcpy(head->arguments + head->n_argument_bytes, text);
    head->n_argument_bytes += strlen(text) + 1;
}

/* Fill in the program and its place. */
static inline void full_page_head(struct cushim_page_head *head) {
    const char *const words[] = {"./train", "--epochs", "3", "two words", "", "it's"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        full_page_add_argument(head, words[i]);
    strcpy(head->host, "node7");
    head->start_ns = 1000;
    strcpy(head->boot, "0f8fad5b-d9cb-469f-a165-70867728950e");
    strcpy(head->folder, "/srv/run \"1\"");
    head->driver_version = 13000;
    head->n_option_bytes = sizeof "free=relaxed\0keep=64M";
    memcpy(head->options, "free=relaxed\0keep=64M", head->n_option_bytes);
}

/* The text that is written for it, with a 0 at the end; static. */
static inline char *full_page_written(void (*write_to)(struct cushim_writer *,
                                                       const struct cushim_report *),
                                      const struct cushim_report *report) {
    static char text[1 << 16];
    struct cushim_writer out = {.fd = memfd_create("report", 0)};
    write_to(&out, report);
    cushim_writer_flush(&out);
    ssize_t n = pread(out.fd, text, sizeof text - 1, 0);
    close(out.fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}
