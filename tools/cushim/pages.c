#include "tools/cushim/pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/cushim/cache/calibration.h"
#include "tools/cushim/symbols.h"

/* "PROCESS-START.page", as preload/state/live.c calls them. */
static int is_page(const struct dirent *entry) {
    const char *name = entry->d_name;
    size_t n_process = strspn(name, "0123456789");
    size_t n_start = name[n_process] == '-' ? strspn(name + n_process + 1, "0123456789") : 0;
    return n_process && n_start && strcmp(name + n_process + 1 + n_start, CUSHIM_PAGE_ENDING) == 0;
}

/* Did a process find no memory on a device of which this one has much idle memory? */
static bool is_short_of(const struct cushim_report *other, const struct cushim_report *report) {
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        for (int k = 0; k < CUSHIM_MAX_DEVICES; k++) {
            const unsigned char *uuid = report->page.device_uuids[i];
            if (cushim_report_idle_bytes(report, i) >= CUSHIM_REPORT_MUCH_IDLE_BYTES &&
                memcmp(uuid, other->page.device_uuids[k], sizeof report->page.device_uuids[i]) ==
                    0 &&
                cushim_mem_stats_read(
                    &cushim_report_stats(other, k, CUSHIM_KIND_DEVICE)->n_out_of_memory))
                return true;
        }
    }
    return false;
}

static bool has_much_idle(const struct cushim_report *report) {
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        if (cushim_report_idle_bytes(report, i) >= CUSHIM_REPORT_MUCH_IDLE_BYTES)
            return true;
    }
    return false;
}

static uint64_t count_short(int folder, const char *name, const struct cushim_report *report) {
    static struct cushim_report other;
    struct dirent **entries;
    uint64_t n_short = 0;
    int n = scandirat(folder, ".", &entries, is_page, NULL);
    for (int i = 0; i < n; i++) {
        if (strcmp(entries[i]->d_name, name) != 0 &&
            cushim_page_file_read(folder, entries[i]->d_name, &other) == 0)
            n_short += is_short_of(&other, report);
        free(entries[i]);
    }
    if (n > 0)
        free(entries);
    return n_short;
}

/* 0 or an errno: ENOEXEC where it is no page of this version. */
static int show_one(int folder, const char *name, pages_show_fn *show, void *context) {
    static struct cushim_report report;
    int error = cushim_page_file_read(folder, name, &report);
    if (error)
        return error;
    uint64_t n_short = has_much_idle(&report) ? count_short(folder, name, &report) : 0;
    /* what was read of others took the place of its calls and sites */
    error = has_much_idle(&report) ? cushim_page_file_read(folder, name, &report) : 0;
    if (error)
        return error;
    report.n_short = n_short;
    report.find_line = symbols_find_line;
    calibration_apply(&report);
    struct page page = {name, folder, cushim_page_is_alive(folder, name), &report};
    if (!page.is_alive)
        report.run_ns = cushim_page_known_ns(&report.page);
    show(&page, context);
    return 0;
}

bool pages_one(const char *name, pages_show_fn *show, void *context) {
    int folder = cushim_page_folder_open(false);
    bool is_there = folder >= 0 && show_one(folder, name, show, context) == 0;
    if (folder >= 0)
        close(folder);
    return is_there;
}

struct pages_found pages_each(pages_show_fn *show, void *context) {
    struct pages_found found = {0, 0};
    struct dirent **entries;
    int folder = cushim_page_folder_open(false);
    int n = folder < 0 ? 0 : scandirat(folder, ".", &entries, is_page, versionsort);
    for (int i = 0; i < n; i++) {
        int error = show_one(folder, entries[i]->d_name, show, context);
        found.n_shown += error == 0;
        found.n_unreadable += error == ENOEXEC;
        free(entries[i]);
    }
    if (n > 0)
        free(entries);
    if (folder >= 0)
        close(folder);
    return found;
}

void pages_remove(const struct page *page) {
    unlinkat(page->folder, page->name, 0);
}

/* ---- pages that nobody came for; those of other versions, too, which nobody here can read ---- */

struct left {
    const char *name;
    time_t made;      /* what is stored through a mapping leaves the time of the file */
    uint64_t n_bytes; /* of memory */
};

static int by_age(const void *a, const void *b) {
    time_t first = ((const struct left *)a)->made, second = ((const struct left *)b)->made;
    return (first > second) - (first < second);
}

/* What stays of pages of processes that ended. */
struct kept {
    int n;
    uint64_t n_bytes; /* of memory, all together */
    time_t before;    /* none that was made earlier */
};

/* Of n pages, the last ones first. */
static int remove_dead(int folder, const struct left *pages, int n, const struct kept *kept) {
    int n_removed = 0, n_kept = 0;
    uint64_t n_bytes = 0;
    for (int i = n - 1; i >= 0; i--) {
        if (cushim_page_is_alive(folder, pages[i].name))
            continue;
        n_bytes += pages[i].n_bytes;
        if (n_kept < kept->n && n_bytes <= kept->n_bytes && pages[i].made >= kept->before)
            n_kept++;
        else
            n_removed += unlinkat(folder, pages[i].name, 0) == 0;
    }
    return n_removed;
}

static int remove_left(const struct kept *kept) {
    struct dirent **entries = NULL;
    int n_removed = 0, folder = cushim_page_folder_open(false);
    int n = folder < 0 ? 0 : scandirat(folder, ".", &entries, is_page, NULL);
    struct left *pages = n > 0 ? calloc((size_t)n, sizeof *pages) : NULL;
    for (int i = 0; pages && i < n; i++) {
        struct stat status = {0};
        fstatat(folder, entries[i]->d_name, &status, AT_SYMLINK_NOFOLLOW);
        pages[i] =
            (struct left){entries[i]->d_name, status.st_mtime, (uint64_t)status.st_blocks * 512};
    }
    if (pages) {
        qsort(pages, (size_t)n, sizeof *pages, by_age);
        n_removed = remove_dead(folder, pages, n, kept);
    }
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    free(pages);
    if (folder >= 0)
        close(folder);
    return n_removed;
}

int pages_clean(void) {
    return remove_left(&(struct kept){0, 0, 0});
}

void pages_prune(void) {
    enum { DAY_SECONDS = 24 * 60 * 60, KEPT = 64, KEPT_BYTES = 16 << 20 };
    remove_left(&(struct kept){KEPT, KEPT_BYTES, time(NULL) - DAY_SECONDS});
}

bool pages_has_memory(const struct cushim_report *report) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (cushim_report_has_device(report, device))
            return true;
    }
    return false;
}
