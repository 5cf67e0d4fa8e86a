#include "tools/cushim/pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file_mode.h"
#include "base/utf8.h"
#include "tools/cushim/symbols.h"
#include "tools/cushim/usage.h"

/* ---- the folders ---- */

enum { MOST_USERS = 1024 };

static struct {
    bool is_of_all;
    struct folder {
        int descriptor;
        uid_t user;
        dev_t device;
        ino_t inode;
    } rows[MOST_USERS + 2];
    int n;
} folders;

void pages_of_all_users(void) {
    folders.is_of_all = true;
}

const char *pages_user(uid_t user) {
    static char text[CUSHIM_NAME_BYTES];
    const struct passwd *row = getpwuid(user);
    if (row)
        snprintf(text, sizeof text, "%s", row->pw_name);
    else
        snprintf(text, sizeof text, "%lu", (unsigned long)user);
    cushim_utf8_clean(text);
    return text;
}

/* Add a folder by its descriptor, which is closed if the folder is known already. */
static void add_folder(int descriptor) {
    struct stat status;
    bool is_new = descriptor >= 0 && fstat(descriptor, &status) == 0 &&
                  folders.n < (int)(sizeof folders.rows / sizeof *folders.rows);
    for (int i = 0; i < folders.n && is_new; i++)
        is_new = folders.rows[i].device != status.st_dev || folders.rows[i].inode != status.st_ino;
    if (is_new)
        folders.rows[folders.n++] =
            (struct folder){descriptor, status.st_uid, status.st_dev, status.st_ino};
    else if (descriptor >= 0)
        close(descriptor);
}

/* Add folders such as "/dev/shm/cushim-1000" and "/run/user/1000/cushim", if that user owns
 * them. */
static void add_users(const char *format, const char *parent, const char *prefix) {
    DIR *directory = opendir(parent);
    struct dirent *entry;
    while (directory && folders.n < MOST_USERS && (entry = readdir(directory))) {
        char path[PATH_MAX], *end;
        size_t n_prefix = strlen(prefix);
        if (strncmp(entry->d_name, prefix, n_prefix) != 0 || entry->d_name[n_prefix] < '0' ||
            entry->d_name[n_prefix] > '9')
            continue;
        unsigned long number = strtoul(entry->d_name + n_prefix, &end, 10);
        uid_t owner;
        snprintf(path, sizeof path, format, number);
        int descriptor = *end ? -1 : cushim_page_folder_read(path, &owner);
        if (descriptor >= 0 && owner != number) {
            close(descriptor);
            descriptor = -1;
        }
        add_folder(descriptor);
    }
    if (directory)
        closedir(directory);
}

static void open_folders(void) {
    const char *named = getenv(CUSHIM_PAGE_FOLDER_VARIABLE);
    uid_t owner;
    folders.n = 0;
    add_folder(cushim_page_folder_open(false));
    if (named && *named) /* it may belong to another user */
        add_folder(cushim_page_folder_read(named, &owner));
    if (folders.is_of_all) {
        add_users("/dev/shm/cushim-%lu", "/dev/shm", "cushim-");
        add_users("/run/user/%lu/cushim", "/run/user", "");
    }
}

static void close_folders(void) {
    for (int i = 0; i < folders.n; i++)
        close(folders.rows[i].descriptor);
    folders.n = 0;
}

/* ---- the pages of a folder ---- */

/* The limit exists because a user may fill a folder with files. */
enum { MOST_PAGES = 4096 };
static int n_listed;

/* "PROCESS-START.page", as preload/state/live.c calls them. */
static int is_page(const struct dirent *entry) {
    const char *name = entry->d_name;
    size_t n_process = strspn(name, "0123456789");
    size_t n_start = name[n_process] == '-' ? strspn(name + n_process + 1, "0123456789") : 0;
    return n_process && n_start && n_listed < MOST_PAGES &&
           strcmp(name + n_process + 1 + n_start, CUSHIM_PAGE_ENDING) == 0 && ++n_listed;
}

/* Did the other process find no memory on a device of which this one has much idle memory? */
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
    n_listed = 0;
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

/* Returns 0 or an errno, ENOEXEC if it is no page of this version. */
static int show_one(const struct folder *of, const char *name, pages_show_fn *show, void *context) {
    static struct cushim_report report;
    int folder = of->descriptor;
    int error = cushim_page_file_read(folder, name, &report);
    if (error)
        return error;
    uint64_t n_short = has_much_idle(&report) ? count_short(folder, name, &report) : 0;
    /* reading others replaced its calls and sites */
    error = has_much_idle(&report) ? cushim_page_file_read(folder, name, &report) : 0;
    if (error)
        return error;
    report.n_short = n_short;
    report.find_line = symbols_find_line;
    struct page page = {name, folder, of->user, cushim_page_is_alive(folder, name), &report};
    if (!page.is_alive) {
        report.run_ns = cushim_page_known_ns(&report.page);
        report.is_run_longer = atomic_load(&report.page.head.state) != CUSHIM_PAGE_LEFT;
    }
    show(&page, context);
    return 0;
}

/* ---- all of them, or one ---- */

bool pages_one(const char *name, pages_show_fn *show, void *context) {
    bool is_there = false;
    open_folders();
    for (int i = 0; i < folders.n && !is_there; i++)
        is_there = show_one(&folders.rows[i], name, show, context) == 0;
    close_folders();
    return is_there;
}

static void show_folder(const struct folder *folder, pages_show_fn *show, void *context,
                        struct pages_found *found) {
    struct dirent **entries;
    n_listed = 0;
    int n = scandirat(folder->descriptor, ".", &entries, is_page, versionsort);
    for (int i = 0; i < n; i++) {
        int error = show_one(folder, entries[i]->d_name, show, context);
        found->n_shown += error == 0;
        if (error == ENOEXEC) {
            size_t n_text = strlen(found->unreadable);
            found->n_running += cushim_page_is_alive(folder->descriptor, entries[i]->d_name);
            if (found->n_unreadable++ < PAGES_NAMED)
                snprintf(found->unreadable + n_text, sizeof found->unreadable - n_text, "%s%.60s",
                         n_text ? ", " : "", entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (n > 0)
        free(entries);
}

struct pages_found pages_each(pages_show_fn *show, void *context) {
    struct pages_found found = {0};
    open_folders();
    for (int i = 0; i < folders.n; i++)
        show_folder(&folders.rows[i], show, context, &found);
    close_folders();
    return found;
}

/* ---- whether there can be one ---- */

/* Say why a folder was refused. */
static void say_refusal(int error, char why[PAGES_WHY_BYTES]) {
    char path[PATH_MAX];
    struct stat status;
    cushim_page_folder_path(path);
    cushim_utf8_clean(path);
    if (lstat(path, &status) != 0)
        snprintf(why, PAGES_WHY_BYTES, "%.300s: %s", path, strerror(error));
    else if (S_ISLNK(status.st_mode))
        snprintf(why, PAGES_WHY_BYTES, "%.300s is a link", path);
    else if (!S_ISDIR(status.st_mode))
        snprintf(why, PAGES_WHY_BYTES, "%.300s is no folder", path);
    else if (status.st_uid != geteuid())
        snprintf(why, PAGES_WHY_BYTES, "%.300s belongs to %s; CUSHIM_LIVE_DIR names another", path,
                 pages_user(status.st_uid));
    else if (error == EPERM)
        snprintf(why, PAGES_WHY_BYTES, "%.300s has mode %04o; it must have 0700, or 0750", path,
                 (unsigned)status.st_mode & 07777);
    else
        snprintf(why, PAGES_WHY_BYTES, "%.300s: %s", path, strerror(error));
}

/* Make a page, with as much memory as a process needs at first, and remove it. */
static int try_page(int folder) {
    enum { AT_FIRST_BYTES = 64 << 10 };
    static const struct cushim_page nothing;
    char name[CUSHIM_PAGE_NAME_BYTES];
    snprintf(name, sizeof name, "%ld-0" CUSHIM_PAGE_ENDING, (long)getpid());
    unlinkat(folder, name, 0);
    int file = cushim_page_file_make(folder, name, &nothing);
    if (file < 0)
        return errno;
    int error = fallocate(file, 0, 0, AT_FIRST_BYTES) == 0 || errno == EOPNOTSUPP ? 0 : errno;
    unlinkat(folder, name, 0);
    close(file);
    return error;
}

bool pages_can_be_made(char why[PAGES_WHY_BYTES]) {
    char path[PATH_MAX] = "", link[64];
    int folder = cushim_page_folder_open(true);
    if (folder < 0) {
        int error = errno;
        say_refusal(error, why);
        errno = error;
        return false;
    }
    int error = try_page(folder);
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    close(folder);
    cushim_utf8_clean(path);
    if (error)
        snprintf(why, PAGES_WHY_BYTES, "%.300s: %s", path, strerror(error));
    errno = error;
    return !error;
}

/* Its file bars writers, except while it is opened here. */
struct cushim_page_head *pages_map_head(const struct page *page) {
    const int flags = O_NOFOLLOW | O_CLOEXEC;
    void *head = MAP_FAILED;
    int bar = openat(page->folder, page->name, O_RDONLY | flags);
    if (bar < 0)
        return NULL;
    cushim_file_let_write(bar);
    int file = openat(page->folder, page->name, O_RDWR | flags);
    cushim_file_bar_writers(bar);
    close(bar);
    if (file < 0)
        return NULL;
    head = mmap(NULL, sizeof(struct cushim_page_head), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return head == MAP_FAILED ? NULL : head;
}

void pages_remove(const struct page *page) {
    if (page->user == geteuid())
        unlinkat(page->folder, page->name, 0);
}

/* ---- pages that nothing collected; also of other versions, which this command cannot read ---- */

struct left {
    const char *name;
    time_t made;      /* stores through a mapping do not change the time of the file */
    uint64_t n_bytes; /* of memory */
};

static int by_age(const void *a, const void *b) {
    time_t first = ((const struct left *)a)->made, second = ((const struct left *)b)->made;
    return (first > second) - (first < second);
}

/* Which pages of processes that ended stay. */
struct kept {
    int n;
    uint64_t n_bytes; /* of memory, in all */
    time_t before;    /* none that is older */
};

/* Remove pages of processes that ended.  The last pages are kept first. */
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
    n_listed = 0;
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

bool pages_is_wanted(const char *wanted, int64_t process, const char *program) {
    char number[24];
    snprintf(number, sizeof number, "%ld", (long)process);
    return !wanted || strcmp(wanted, number) == 0 || strcmp(wanted, program) == 0;
}

bool pages_complain_of_nobody(bool has_hint) {
    const char *named = getenv(CUSHIM_PAGE_FOLDER_VARIABLE);
    bool is_named = named && *named;
    return complain("no process has a live page%s%s; `cushim run` starts one that has%s",
                    is_named ? " in " : "", is_named ? named : "",
                    has_hint ? "; --all-users shows those of other users" : "");
}

bool pages_complain_of_none(const char *wanted) {
    return complain("no live page of %s; `cushim run` starts a program with one", wanted);
}
