#include "report/page_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file_read.h"
#include "base/largest.h"
#include "base/output.h"
#include "base/utf8.h"
#include "cuda/symbol.h"
#include "memory/cache/cache.h"

_Static_assert(sizeof(struct cushim_mem_cache_row) == CUSHIM_PAGE_CACHE_BYTES &&
                   offsetof(struct cushim_mem_cache, row) % CUSHIM_PAGE_CACHE_BYTES == 0 &&
                   offsetof(struct cushim_mem_cache, row) + CUSHIM_PAGE_CACHE_BYTES ==
                       sizeof(struct cushim_mem_cache),
               "a row has the counts of its cache, and nothing else of it");

uint64_t cushim_page_layout(void) {
    return (uint64_t)sizeof(struct cushim_page) << 40 ^
           (uint64_t)offsetof(struct cushim_page, copies) << 20 ^
           (uint64_t)offsetof(struct cushim_page, findings) << 4 ^
           (uint64_t)offsetof(struct cushim_page, device_names) ^
           (uint64_t)offsetof(struct cushim_page_head, options) << 50 ^
           (uint64_t)offsetof(struct cushim_mem_cache_row, counts) << 45 ^
           (uint64_t)offsetof(struct cushim_mem_cache_row, stats) << 25 ^
           (uint64_t)sizeof(struct cushim_page_finding) << 10 ^
           (uint64_t)sizeof(struct cushim_page_shortage) << 35 ^ (uint64_t)CUSHIM_N_SYMBOLS << 30 ^
           CUSHIM_MAX_DEVICES;
}

/* ---- the folder ---- */

int cushim_page_folder_read(const char *path, uid_t *owner) {
    struct stat status;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &status) == 0 && !(status.st_mode & 022)) {
        *owner = status.st_uid;
        return folder;
    }
    close(folder);
    errno = EPERM;
    return -1;
}

/* Can the group read all of it or nothing, and the others nothing? */
static bool is_mode_fit(mode_t mode) {
    return (mode & 077) == 0 || (mode & 077) == 050;
}

static int open_folder(const char *path, bool is_made) {
    struct stat status;
    uid_t owner;
    if (is_made && mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    int folder = cushim_page_folder_read(path, &owner);
    if (folder < 0 ||
        (owner == geteuid() && fstat(folder, &status) == 0 && is_mode_fit(status.st_mode)))
        return folder;
    close(folder);
    errno = EPERM;
    return -1;
}

const char *cushim_page_folder_path(char path[PATH_MAX]) {
    const char *named = cushim_environment(CUSHIM_PAGE_FOLDER_VARIABLE);
    if (named && *named)
        snprintf(path, PATH_MAX, "%s", named);
    else
        snprintf(path, PATH_MAX, "/dev/shm/cushim-%lu", (unsigned long)geteuid());
    return path;
}

int cushim_page_folder_open(bool is_made) {
    char path[PATH_MAX];
    const char *named = cushim_environment(CUSHIM_PAGE_FOLDER_VARIABLE);
    const char *runtime = cushim_environment("XDG_RUNTIME_DIR");
    if (!(named && *named) && runtime && *runtime == '/' &&
        snprintf(path, sizeof path, "%s/cushim", runtime) < (int)sizeof path) {
        int folder = open_folder(path, is_made);
        if (folder >= 0)
            return folder;
    }
    return open_folder(cushim_page_folder_path(path), is_made);
}

/* ---- making ---- */

_Static_assert(sizeof(struct cushim_page) % CUSHIM_PAGE_CACHE_BYTES == 0 &&
                   sizeof(struct cushim_page_calls) % CUSHIM_PAGE_CACHE_BYTES == 0 &&
                   sizeof(struct cushim_page_sites) % CUSHIM_PAGE_CACHE_BYTES == 0,
               "a file is whole rows");

/* By the descriptor's own description, so that a mapping of it keeps the lock when the descriptor
 * is closed.  A file system may have no locks. */
static void lock_file(int file) {
    syscall(SYS_fcntl, file, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET});
}

bool cushim_page_file_is_locked(int file) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return syscall(SYS_fcntl, file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Give it to the group of a folder that its group may read; if that fails the file stays its
 * owner's. */
static void share_with_group(int folder, int file) {
    struct stat status;
    if (fstat(folder, &status) == 0 && status.st_mode & 040 &&
        fchown(file, (uid_t)-1, status.st_gid) == 0)
        fchmod(file, 0640);
}

/* Write the blocks that are not 0; the others stay holes.  0 or an errno. */
static int write_page(int file, const struct cushim_page *page, size_t n_bytes) {
    static const char zeros[CUSHIM_PAGE_BYTES];
    int error = ftruncate(file, (off_t)n_bytes) == 0 ? 0 : errno;
    for (size_t at = 0; at < sizeof *page && !error; at += sizeof zeros) {
        const char *block = (const char *)page + at;
        if (memcmp(block, zeros, sizeof zeros) == 0)
            continue;
        if (lseek(file, (off_t)at, SEEK_SET) < 0)
            error = errno;
        else
            error = cushim_output_write(file, block, sizeof zeros);
    }
    return error;
}

int cushim_page_file_make(int folder, const char *name, const struct cushim_page *page) {
    struct rlimit limit;
    /* growing a file past it raises a signal */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < cushim_page_file_bytes(page)) {
        errno = EFBIG;
        return -1;
    }
    int file = cushim_output_aside(
        openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file < 0)
        return -1;
    lock_file(file);
    share_with_group(folder, file);
    int error = write_page(file, page, cushim_page_file_bytes(page));
    if (!error)
        return file;
    unlinkat(folder, name, 0);
    close(file);
    errno = error;
    return -1;
}

/* ---- reading ---- */

/* The counters of a row, found by their place in its process; NULL: of none. */
static struct cushim_mem_stats *stats_of(struct cushim_page *page, const void *row) {
    uint64_t address;
    memcpy(&address, (const char *)row + offsetof(struct cushim_mem_cache_row, stats),
           sizeof address);
    uint64_t at = address - page->head.address - offsetof(struct cushim_page, stats);
    if (at >= sizeof page->stats || at % sizeof(struct cushim_mem_stats))
        return NULL;
    return &page->stats[0][0] + at / sizeof(struct cushim_mem_stats);
}

static int add_caches(int file, struct cushim_page *page) {
    static struct cushim_mem_stats as_read[CUSHIM_MAX_DEVICES][CUSHIM_N_KINDS];
    _Alignas(64) char row[CUSHIM_PAGE_CACHE_BYTES];
    uint64_t n_caches = cushim_mem_stats_read(&page->head.n_caches);
    memcpy(as_read, page->stats, sizeof as_read);
    for (uint64_t i = 0; i < n_caches && i < CUSHIM_PAGE_CACHES; i++) {
        int error = cushim_file_read(file, row, sizeof row, sizeof *page + i * sizeof row);
        if (error)
            return error;
        struct cushim_mem_stats *stats = stats_of(page, row);
        if (!stats)
            continue;
        struct cushim_mem_counts counts;
        memcpy(&counts, row + offsetof(struct cushim_mem_cache_row, counts), sizeof counts);
        const struct cushim_mem_stats *gauge = &as_read[0][0] + (stats - &page->stats[0][0]);
        cushim_mem_stats_add_live_counts(stats, &counts, cushim_mem_stats_read(&gauge->live_bytes));
    }
    return 0;
}

static int read_counts(int file, struct cushim_page *page) {
    int error = cushim_file_read(file, page, sizeof *page, 0);
    return error ? error : add_caches(file, page);
}

/* The process goes on meanwhile.  Frees are read before requests, because a request is counted
 * before its free, so that no report has more frees than requests. */
static int read_counters(int file, struct cushim_page *page) {
    static uint64_t n_frees[CUSHIM_MAX_DEVICES * CUSHIM_N_KINDS];
    struct cushim_mem_stats *stats = &page->stats[0][0];
    int error = read_counts(file, page);
    for (size_t i = 0; i < sizeof n_frees / sizeof *n_frees; i++)
        n_frees[i] = cushim_mem_stats_read(&stats[i].n_frees);
    if (!error)
        error = read_counts(file, page);
    for (size_t i = 0; i < sizeof n_frees / sizeof *n_frees; i++)
        atomic_store(&stats[i].n_frees, n_frees[i]);
    return error;
}

/* Make them end within their bytes, each of them too. */
static void settle_texts(char *texts, uint64_t *n_bytes, size_t most) {
    if (*n_bytes > most)
        *n_bytes = most;
    if (*n_bytes)
        texts[*n_bytes - 1] = 0;
}

/* Repair counters that were read while others wrote them, or at the moment of death. */
static void settle(struct cushim_page *page) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            struct cushim_mem_stats *stats = &page->stats[device][kind];
            if ((int64_t)cushim_mem_stats_read(&stats->live_bytes) < 0)
                atomic_store(&stats->live_bytes, 0);
            cushim_mem_stats_raise_live(stats, cushim_mem_stats_read(&stats->live_bytes));
        }
        cushim_utf8_end(page->device_names[device], CUSHIM_NAME_BYTES);
        cushim_utf8_end(page->device_places[device], CUSHIM_PCI_BYTES);
    }
    cushim_utf8_end(page->head.program, CUSHIM_NAME_BYTES);
    cushim_utf8_end(page->head.version, CUSHIM_NAME_BYTES);
    cushim_utf8_end(page->head.host, CUSHIM_NAME_BYTES);
    cushim_utf8_end(page->head.boot, CUSHIM_NAME_BYTES);
    cushim_utf8_end(page->head.folder, CUSHIM_PAGE_FOLDER_BYTES);
    settle_texts(page->head.arguments, &page->head.n_argument_bytes, sizeof page->head.arguments);
    settle_texts(page->head.options, &page->head.n_option_bytes, sizeof page->head.options);
}

static int read_rest(int file, struct cushim_report *report) {
    static struct cushim_page_calls calls;
    static struct cushim_page_sites sites;
    int error = cushim_file_read(file, &calls, sizeof calls, CUSHIM_PAGE_CALLS_AT);
    report->calls = &calls;
    if (error || !report->page.head.sample_bytes)
        return error;
    report->sites = &sites;
    return cushim_file_read(file, &sites, sizeof sites, CUSHIM_PAGE_SITES_AT);
}

static bool is_of_this_version(const struct cushim_page_head *head) {
    return memcmp(head->magic, CUSHIM_PAGE_MAGIC, sizeof head->magic) == 0 &&
           head->layout == cushim_page_layout() &&
           strncmp(head->version, CUSHIM_VERSION_TEXT, CUSHIM_NAME_BYTES) == 0;
}

static int judge(int folder, int file, struct stat *status) {
    struct stat around;
    if (fstat(file, status) != 0 || fstat(folder, &around) != 0)
        return errno;
    if (!S_ISREG(status->st_mode) || status->st_size < CUSHIM_PAGE_FILE_BYTES)
        return ENOEXEC;
    return status->st_uid == around.st_uid ? 0 : EPERM;
}

static int read_page(int folder, int file, struct cushim_report *report) {
    struct cushim_page *page = &report->page;
    struct stat status;
    int error = judge(folder, file, &status);
    if (!error)
        error = cushim_file_read(file, page, sizeof *page, 0);
    if (error)
        return error;
    if (!is_of_this_version(&page->head) || (size_t)status.st_size != cushim_page_file_bytes(page))
        return ENOEXEC;
    error = read_counters(file, page);
    settle(page);
    return error ? error : read_rest(file, report);
}

int cushim_page_file_read(int folder, const char *name, struct cushim_report *report) {
    *report = (struct cushim_report){.is_of_page = true};
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return errno;
    int error = read_page(folder, file, report);
    close(file);
    uint64_t now_ns = cushim_clock_ns(), start_ns = report->page.head.start_ns;
    report->run_ns = now_ns > start_ns ? now_ns - start_ns : 0;
    return error;
}

uint64_t cushim_page_known_ns(const struct cushim_page *page) {
    const struct cushim_page_head *head = &page->head;
    bool is_left = atomic_load(&head->state) == CUSHIM_PAGE_LEFT;
    uint64_t last_ns = is_left ? head->end_ns : 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES && !is_left; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            uint64_t ns = cushim_mem_stats_read(&page->stats[device][kind].last_ns);
            last_ns = ns > last_ns ? ns : last_ns;
        }
    }
    return last_ns > head->start_ns ? last_ns - head->start_ns : 0;
}

uint64_t cushim_page_namespace(void) {
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* Has a process a file of this name mapped?  True if that cannot be known. */
static bool has_mapped(long long process, const char *name) {
    char path[64], line[PATH_MAX + 128];
    bool is_there = false;
    if (process <= 0 || process > INT_MAX || (kill((pid_t)process, 0) != 0 && errno == ESRCH))
        return false;
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)process);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return errno != ENOENT;
    while (!is_there && fgets(line, sizeof line, maps))
        is_there = strstr(line, name) != NULL;
    fclose(maps);
    return is_there;
}

/* There was no time yet to lock it. */
static bool is_just_made(const struct stat *status) {
    enum { SECONDS = 60 };
    return S_ISREG(status->st_mode) && !status->st_size && time(NULL) - status->st_mtime < SECONDS;
}

bool cushim_page_is_alive(int folder, const char *name) {
    struct cushim_page_head head = {0};
    struct stat status = {0};
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return errno != ENOENT && errno != ELOOP;
    fstat(file, &status);
    bool is_locked = cushim_page_file_is_locked(file) || is_just_made(&status);
    bool is_known = S_ISREG(status.st_mode) && !cushim_file_read(file, &head, sizeof head, 0) &&
                    !memcmp(head.magic, CUSHIM_PAGE_MAGIC, sizeof head.magic) &&
                    head.layout == cushim_page_layout();
    close(file);
    if (is_locked || (is_known && head.is_locked))
        return is_locked;
    return (is_known && head.namespace != cushim_page_namespace()) ||
           has_mapped(strtoll(name, NULL, 10), name);
}

/* ---- what others hold of a device ---- */

static bool is_own(const struct cushim_page_head *head, const struct cushim_page_head *own) {
    return head->process == own->process && head->start_ns == own->start_ns;
}

/* Its process lives if its file is locked.  False: it does not, or holds nothing there. */
static bool read_other(int folder, int file, const struct cushim_page_head *own,
                       const unsigned char uuid[16], struct cushim_page_other *other) {
    struct cushim_page_head head;
    struct cushim_mem_stats stats[CUSHIM_N_KINDS];
    unsigned char uuids[CUSHIM_MAX_DEVICES][16];
    struct stat status;
    unsigned device = 0;
    if (judge(folder, file, &status) || !cushim_page_file_is_locked(file) ||
        cushim_file_read(file, &head, sizeof head, 0) || !is_of_this_version(&head) ||
        is_own(&head, own) ||
        cushim_file_read(file, uuids, sizeof uuids, offsetof(struct cushim_page, device_uuids)))
        return false;
    while (device < CUSHIM_MAX_DEVICES && memcmp(uuids[device], uuid, sizeof *uuids) != 0)
        device++;
    if (device == CUSHIM_MAX_DEVICES ||
        cushim_file_read(file, stats, sizeof stats,
                         offsetof(struct cushim_page, stats) + device * sizeof stats))
        return false;
    cushim_utf8_end(head.program, sizeof head.program);
    *other = (struct cushim_page_other){.process = (uint64_t)head.process};
    snprintf(other->program, sizeof other->program, "%.*s", (int)sizeof other->program - 1,
             head.program);
    cushim_utf8_clean(other->program); /* the last character may be cut */
    for (unsigned kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_kind_is_on_device(kind) && kind != CUSHIM_KIND_MANAGED)
            other->n_bytes += cushim_mem_stats_read(&stats[kind].held_bytes);
    }
    return other->n_bytes;
}

#define BYTES_OF(other) (other)->n_bytes

void cushim_page_find_others(const struct cushim_page_head *own, const unsigned char uuid[16],
                             uint64_t most_bytes, struct cushim_page_other *others, unsigned n) {
    enum { MOST_READ = 64, MOST_ENTRIES = 1024 };
    struct cushim_page_other other;
    const struct dirent *entry;
    int folder = cushim_page_folder_open(false), n_read = 0, n_entries = 0;
    DIR *entries = folder < 0 ? NULL : fdopendir(folder);
    if (!entries && folder >= 0)
        close(folder);
    while (entries && n_read < MOST_READ && n_entries++ < MOST_ENTRIES &&
           (entry = readdir(entries))) {
        int file =
            strstr(entry->d_name, CUSHIM_PAGE_ENDING)
                ? openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                : -1;
        if (file < 0)
            continue;
        n_read++;
        if (read_other(folder, file, own, uuid, &other) && other.n_bytes <= most_bytes)
            CUSHIM_KEEP_LARGEST(others, n, &other, BYTES_OF);
        close(file);
    }
    if (entries)
        closedir(entries);
}
