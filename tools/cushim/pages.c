#include "tools/cushim/pages.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/cushim/symbols.h"

static int is_page(const struct dirent *entry) {
    size_t n = strlen(entry->d_name), n_ending = sizeof CUSHIM_PAGE_ENDING - 1;
    return n > n_ending && strcmp(entry->d_name + n - n_ending, CUSHIM_PAGE_ENDING) == 0;
}

static bool show_one(int folder, const char *name, pages_show_fn *show, void *context) {
    static struct cushim_report report;
    if (cushim_page_file_read(folder, name, &report) != 0)
        return false;
    report.find_line = symbols_find_line;
    struct page page = {name, folder, cushim_page_is_alive(name, report.page.head.process),
                        &report};
    if (!page.is_alive)
        report.run_ns = cushim_page_known_ns(&report.page);
    show(&page, context);
    return true;
}

bool pages_one(const char *name, pages_show_fn *show, void *context) {
    int folder = cushim_page_folder_open(false);
    bool is_there = folder >= 0 && show_one(folder, name, show, context);
    if (folder >= 0)
        close(folder);
    return is_there;
}

int pages_each(pages_show_fn *show, void *context) {
    struct dirent **entries;
    int n_pages = 0, folder = cushim_page_folder_open(false);
    int n = folder < 0 ? 0 : scandirat(folder, ".", &entries, is_page, versionsort);
    for (int i = 0; i < n; i++) {
        n_pages += show_one(folder, entries[i]->d_name, show, context);
        free(entries[i]);
    }
    if (n > 0)
        free(entries);
    if (folder >= 0)
        close(folder);
    return n_pages;
}

void pages_remove(const struct page *page) {
    unlinkat(page->folder, page->name, 0);
}

static void prune(const struct page *page, void *unused) {
    enum { DAY_SECONDS = 24 * 60 * 60 };
    struct stat status;
    (void)unused;
    /* what is stored through a mapping leaves the time of the file */
    if (!page->is_alive && fstatat(page->folder, page->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - status.st_mtime > DAY_SECONDS)
        pages_remove(page);
}

void pages_prune(void) {
    pages_each(prune, NULL);
}

bool pages_has_memory(const struct cushim_report *report) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (cushim_report_has_device(report, device))
            return true;
    }
    return false;
}
