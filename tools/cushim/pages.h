/* Shows the live pages of this user's processes, or of all users', one after the other. */
#pragma once

#include "report/page_file.h"

/* A page; the report is valid until the next one. */
struct page {
    const char *name; /* of its file */
    int folder;
    uid_t user;    /* the owner of its folder and of the file */
    bool is_alive; /* its process lives */
    struct cushim_report *report;
};

typedef void pages_show_fn(const struct page *page, void *context);

/* The number of pages that were shown, and of those that cannot be read: of another version, or
 * damaged.  Of these, the first few are named, and some may be of processes that run. */
enum { PAGES_NAMED = 3 };
struct pages_found {
    int n_shown, n_unreadable, n_running;
    char unreadable[PAGES_NAMED * CUSHIM_PAGE_NAME_BYTES]; /* "a.page, b.page" */
};

/* Show every page of a folder that can be read, in the order of their names; other files are left
 * alone. */
struct pages_found pages_each(pages_show_fn *show, void *context);

/* Show one page, by the name of its file.  Returns false if it is gone. */
bool pages_one(const char *name, pages_show_fn *show, void *context);

/* The head of a page, mapped to be written to, because its process reads a word there (munmap).
 * NULL and errno: it cannot be. */
struct cushim_page_head *pages_map_head(const struct page *page);

/* Remove the page's file. */
void pages_remove(const struct page *page);

/* Can a process that is started now have a page?  If not, `why` has the reason as a sentence,
 * and errno is set. */
enum { PAGES_WHY_BYTES = 512 };
bool pages_can_be_made(char why[PAGES_WHY_BYTES]);

/* Remove this user's pages of processes that ended; returns their number. */
int pages_clean(void);

/* Remove those that are older than a day, and all but the last 64 and the last 16 MiB. */
void pages_prune(void);

/* From now on also show the pages of other users that this one may read. */
void pages_of_all_users(void);

/* The name of a user, or the number if there is no name; static. */
const char *pages_user(uid_t user);

/* Is it the number of the process, or the name of its program?  NULL: any is wanted. */
bool pages_is_wanted(const char *wanted, int64_t process, const char *program);

/* Say that no process has a live page, in the folder that CUSHIM_LIVE_DIR names if it does, and
 * with a hint how to see those of others.  Returns false. */
bool pages_complain_of_nobody(bool has_hint);

/* Say that no process that is wanted has a page.  Returns false. */
bool pages_complain_of_none(const char *wanted);
