/* The pages of this user's processes, one after the other. */
#ifndef CUSHIM_TOOLS_PAGES_H
#define CUSHIM_TOOLS_PAGES_H

#include "report/page_file.h"

/* A page; the report is valid until the next one. */
struct page {
    const char *name; /* of its file */
    int folder;
    bool is_alive; /* its process has it mapped */
    struct cushim_report *report;
};

typedef void pages_show_fn(const struct page *page, void *context);

/* How many pages were shown, and how many cannot be read: of another version, or damaged. */
struct pages_found {
    int n_shown, n_unreadable;
};

/* Show every page of the folder, in the order of their names, that can be read; other files are
 * left alone. */
struct pages_found pages_each(pages_show_fn *show, void *context);

/* The same for one, by the name of its file; false: it is gone. */
bool pages_one(const char *name, pages_show_fn *show, void *context);

/* Its file is not needed any more. */
void pages_remove(const struct page *page);

/* Remove the pages of all processes that ended; returns how many those were. */
int pages_clean(void);

/* The same of those that were made more than a day ago, or before the last 64 pages. */
void pages_prune(void);

/* Did the process ask for any memory? */
bool pages_has_memory(const struct cushim_report *report);

#endif
