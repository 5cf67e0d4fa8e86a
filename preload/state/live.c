#include "preload/state/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cut_file.h"
#include "base/environment.h"
#include "base/file_mode.h"
#include "base/log.h"
#include "base/output.h"
#include "base/path.h"
#include "memory/cache/cache.h"
#include "preload/resolve/resolve.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"
#include "report/page_file.h"

struct cushim_page cushim_page;
struct cushim_page_sites cushim_page_sites;

/* ---- the file beneath the page ----
 *
 * The file has holes.  A part of the page is mapped from the file when it is shown, which is before
 * the first store to it.  Until then it is memory of this process, which nobody else sees.  So a
 * process that uses little has a small file, a full file system only hides parts, and no store can
 * fail.
 *
 * No descriptor stays open, so a mapping that no child inherits holds the file's lock.  A program
 * that closes all descriptors keeps it, and it ends with exec and with every end of the process.
 */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

enum {
    PAGE = CUSHIM_PAGE_BYTES,
    WORD_BITS = 64,
    MOST_PAGES = (CUSHIM_PAGE_SITES_AT + sizeof(struct cushim_page_sites)) / PAGE,
    DEVICES_AT_FIRST = 8 /* whose counters are shown from the start */
};

static struct {
    pthread_mutex_t lock; /* taken while something is shown */
    char *window;         /* the whole file; what is shown was moved out of it.  NULL: no file */
    size_t n_pages;
    uint64_t n_rows;  /* of caches */
    bool is_reserved; /* all of the file has memory */
    atomic_bool has_lost;
    atomic_bool is_cut;                                 /* by root: counters began anew at 0 */
    _Atomic uint64_t shown[MOST_PAGES / WORD_BITS + 1]; /* a bit a page */
} map = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_shown(size_t page) {
    return atomic_load_explicit(&map.shown[page / WORD_BITS], memory_order_acquire) >>
               page % WORD_BITS &
           1;
}

/* ---- a part ---- */

static bool copy_and_move(char *from, size_t n_bytes, void *to) {
    cushim_cut_file_watch(from, n_bytes, &map.is_cut);
    memcpy(from, to, n_bytes);
    bool is_moved = mremap(from, n_bytes, n_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
    cushim_cut_file_forget(from);
    return is_moved;
}

/* Put pages of the file in the place of memory, with its present contents.  The caller holds the
 * lock. */
static bool move_in(size_t first, size_t n_pages, void *to) {
    char *from = map.window + first * PAGE;
    size_t n_bytes = n_pages * PAGE;
    if (atomic_load(&map.is_cut) ||
        (!map.is_reserved && madvise(from, n_bytes, MADV_POPULATE_WRITE) != 0) ||
        !copy_and_move(from, n_bytes, to))
        return false;
    for (size_t i = first; i < first + n_pages; i++)
        atomic_fetch_or_explicit(&map.shown[i / WORD_BITS], (uint64_t)1 << i % WORD_BITS,
                                 memory_order_release);
    return true;
}

/* The three objects that a file has, and where. */
static const struct object {
    char *memory;
    size_t n_bytes, at;
} objects[] = {{(char *)&cushim_page, sizeof cushim_page, 0},
               {(char *)&cushim_page_calls, sizeof cushim_page_calls, CUSHIM_PAGE_CALLS_AT},
               {(char *)&cushim_page_sites, sizeof cushim_page_sites, CUSHIM_PAGE_SITES_AT}};
enum { N_OBJECTS = sizeof objects / sizeof *objects };

static const struct object *object_of(const char *part) {
    for (int i = 0; i < N_OBJECTS; i++) {
        if (part >= objects[i].memory && part < objects[i].memory + objects[i].n_bytes)
            return &objects[i];
    }
    return NULL;
}

/* Show the pages that are not shown yet, run by run. */
static bool show(const struct object *object, size_t first, size_t end) {
    bool is_well = true;
    while (first < end && is_well) {
        size_t n = 0, page = object->at / PAGE + first;
        while (first + n < end && !is_shown(page + n))
            n++;
        is_well = !n || move_in(page, n, object->memory + first * PAGE);
        first += n ? n : 1;
    }
    return is_well;
}

void cushim_live_show(const void *part, size_t n_bytes) {
    const struct object *object = map.window ? object_of(part) : NULL;
    if (!object)
        return;
    size_t at = (size_t)((const char *)part - object->memory), end = (at + n_bytes + PAGE - 1);
    size_t page = at / PAGE, n_shown = 0, n_pages = end / PAGE - page;
    while (n_shown < n_pages && is_shown(object->at / PAGE + page + n_shown))
        n_shown++;
    if (n_shown == n_pages || object->at / PAGE + page + n_pages > map.n_pages)
        return;
    int saved_errno = errno;
    pthread_mutex_lock(&map.lock);
    if (!show(object, page, page + n_pages))
        atomic_store(&map.has_lost, true);
    pthread_mutex_unlock(&map.lock);
    errno = saved_errno;
}

static bool map_row(void *row) {
    size_t at = sizeof cushim_page + map.n_rows * CUSHIM_PAGE_CACHE_BYTES;
    if (!map.window || map.n_rows >= CUSHIM_PAGE_CACHES)
        return false;
    pthread_mutex_lock(&map.lock);
    bool is_well = move_in(at / PAGE, CUSHIM_PAGE_CACHE_BYTES / PAGE, row);
    pthread_mutex_unlock(&map.lock);
    if (!is_well)
        return false;
    cushim_cut_file_watch(row, CUSHIM_PAGE_CACHE_BYTES, &map.is_cut);
    map.n_rows++;
    return true;
}

static bool map_has_all(void) {
    return map.window && !atomic_load(&map.has_lost);
}

/* ---- the file ---- */

/* Closes the descriptor, because from here on the mapping holds the lock. */
static void hold_lock(int file) {
    void *lock = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (lock != MAP_FAILED)
        madvise(lock, PAGE, MADV_DONTFORK);
    close(file);
}

/* What every process shows: the head, the counters of the first devices, and what follows those of
 * all devices.  Look-ups may have been counted already. */
static const struct {
    const void *part;
    size_t n_bytes, at; /* in the file */
} first[] = {
    {&cushim_page, offsetof(struct cushim_page, stats[DEVICES_AT_FIRST]), 0},
    {cushim_page.device_names,
     offsetof(struct cushim_page, findings) - offsetof(struct cushim_page, device_names),
     offsetof(struct cushim_page, device_names) / PAGE *PAGE},
    {&cushim_page_calls.lookups, sizeof cushim_page_calls.lookups,
     CUSHIM_PAGE_CALLS_AT + offsetof(struct cushim_page_calls, lookups) / PAGE *PAGE},
};
enum { N_FIRST = sizeof first / sizeof *first };

/* Reserve memory for these, or for the whole file if the kernel cannot reserve parts; 0 or an
 * errno.
 */
static int reserve(int file, char *window, size_t n_bytes) {
    for (int i = 0; i < N_FIRST; i++) {
        size_t n = (uintptr_t)first[i].part % PAGE + first[i].n_bytes;
        if (madvise(window + first[i].at, n, MADV_POPULATE_WRITE) == 0)
            continue;
        map.is_reserved = errno == EINVAL;
        return !map.is_reserved ? ENOSPC : fallocate(file, 0, 0, (off_t)n_bytes) ? errno : 0;
    }
    map.is_reserved = false;
    return 0;
}

/* Show the shards that threads took before, such as the thread that forked. */
static void show_taken(void) {
    for (int i = 0; i < CUSHIM_N_OWN_SHARDS; i++) {
        struct cushim_shard *shard = &cushim_page_calls.shards[i];
        if (atomic_load(&shard->is_taken))
            cushim_live_show(shard, sizeof *shard);
    }
}

static void drop_window(void) {
    for (size_t i = 0; i < map.n_pages; i++) { /* moved pages left a hole, which may be in use
                                                * again */
        if (!is_shown(i))
            munmap(map.window + i * PAGE, PAGE);
    }
    map.window = NULL;
}

/* Put zeros of this process in the place of the file. */
static void own_again(void *memory, size_t n_bytes) {
    mmap(memory, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

atomic_uint_fast64_t *cushim_live_orphan;

static void share_orphan(int file) {
    size_t at = offsetof(struct cushim_page, orphan);
    char *shared =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)(at / PAGE * PAGE));
    if (shared == MAP_FAILED)
        return;
    cushim_cut_file_watch(shared, PAGE, &map.is_cut);
    cushim_live_orphan = (atomic_uint_fast64_t *)(void *)(shared + at % PAGE);
}

static int map_begin(int folder, const char *name, int file) {
    size_t n_bytes = cushim_page_file_bytes(&cushim_page);
    hold_lock(file);
    file = cushim_output_aside(openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (file < 0)
        return errno;
    cushim_file_bar_writers(file);
    cushim_page.head.is_locked = cushim_page_file_is_locked(file);
    char *window = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int error = window == MAP_FAILED ? errno : 0;
    if (!error && (error = reserve(file, window, n_bytes)))
        munmap(window, n_bytes);
    if (!error)
        share_orphan(file);
    close(file);
    if (error)
        return error;
    map.n_pages = n_bytes / PAGE;
    map.window = window;
    for (int i = 0; i < N_OBJECTS; i++)
        cushim_cut_file_watch(objects[i].memory, objects[i].n_bytes, &map.is_cut);
    for (int i = 0; i < N_FIRST; i++)
        cushim_live_show(first[i].part, first[i].n_bytes);
    show_taken();
    return 0;
}

/* The thread's shard stays taken, and what was found about the driver stays known. */
static void own_calls_again(void) {
    int identity = atomic_load(&cushim_page_calls.lookups.identity);
    own_again(&cushim_page_calls, sizeof cushim_page_calls);
    atomic_store(&cushim_page_calls.lookups.identity, identity);
    if (cushim_thread.shard)
        atomic_store(&cushim_thread.shard->is_taken, true);
}

static void map_in_child(void) {
    pthread_mutex_init(&map.lock, NULL);
    drop_window();
    memset(map.shown, 0, sizeof map.shown);
    map.n_rows = 0;
    map.has_lost = map.is_cut = false;
    for (int i = 0; i < N_OBJECTS; i++)
        cushim_cut_file_forget(objects[i].memory);
    own_again(&cushim_page, sizeof cushim_page);
    own_calls_again();
    if (map.n_pages > CUSHIM_PAGE_SITES_AT / PAGE)
        own_again(&cushim_page_sites, sizeof cushim_page_sites);
}

/* ---- the page ---- */

/* Written by the thread that reads the options, or by a child when it was forked. */
static struct {
    bool is_on;
    char name[CUSHIM_PAGE_NAME_BYTES];
    dev_t device; /* and inode of the folder */
    ino_t inode;
} live;

/* The lock of the registry of caches is held. */
static void give_row(struct cushim_mem_cache *cache) {
    struct cushim_page_head *head = &cushim_page.head;
    cushim_mem_stats_add(map_row(&cache->row) ? &head->n_caches : &head->n_lost_caches, 1);
}

static int make(void) {
    int folder = cushim_page_folder_open(true);
    struct stat status = {0};
    if (folder < 0)
        return errno;
    if (fstat(folder, &status) == 0) {
        live.device = status.st_dev;
        live.inode = status.st_ino;
    }
    snprintf(live.name, sizeof live.name, "%ld-%lu" CUSHIM_PAGE_ENDING,
             (long)cushim_page.head.process, (unsigned long)cushim_page.head.start_ns);
    int file = cushim_page_file_make(folder, live.name, &cushim_page);
    int error = file < 0 ? errno : map_begin(folder, live.name, file);
    if (file >= 0 && error)
        unlinkat(folder, live.name, 0);
    close(folder);
    return error;
}

/* The kernel puts the arguments one after the other, and these bytes stay.  The program may change
 * the vector, and what it then points to may go. */
static struct { const char *first, *end; } arguments;

void cushim_live_note_arguments(int n, char *const vector[]) {
    for (int i = 0; i < n && vector[i] && (!i || vector[i] == arguments.end); i++) {
        arguments.first = i ? arguments.first : vector[0];
        arguments.end = vector[i] + strlen(vector[i]) + 1;
    }
}

static void note_arguments(struct cushim_page_head *head) {
    size_t n_bytes = (size_t)(arguments.end - arguments.first);
    head->n_argument_bytes = n_bytes < sizeof head->arguments ? n_bytes : sizeof head->arguments;
    if (n_bytes)
        memcpy(head->arguments, arguments.first, head->n_argument_bytes);
    head->arguments[sizeof head->arguments - 1] = 0;
}

/* Note the options that were set, except where output goes, because `cushim run` sets those
 * itself. */
static void note_options(struct cushim_page_head *head) {
    static const char *const untold[] = {"live", "oom", "stats", "trace"};
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    head->n_option_bytes = 0;
    for (size_t i = 0; i < n_rows; i++) {
        char text[128], value[CUSHIM_OPTION_TEXT_BYTES];
        bool is_told = cushim_option_is_set(&cushim_process_options, &rows[i]);
        for (size_t k = 0; k < sizeof untold / sizeof *untold; k++)
            is_told &= strcmp(rows[i].name, untold[k]) != 0;
        if (!is_told)
            continue;
        int n_name = snprintf(text, sizeof text, "%s=%s", rows[i].name,
                              cushim_option_text(&cushim_process_options, &rows[i], value));
        for (char *at = text; n_name > 0 && *at != '='; at++)
            *at = *at == '_' ? '-' : *at;
        size_t n_bytes = strlen(text) + 1;
        if (head->n_option_bytes + n_bytes > sizeof head->options)
            break;
        memcpy(head->options + head->n_option_bytes, text, n_bytes);
        head->n_option_bytes += n_bytes;
    }
}

/* Note where it runs.  If the name of the folder is too long, its end is kept. */
static void note_place(struct cushim_page_head *head) {
    char path[PATH_MAX];
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, head->boot, sizeof head->boot - 1);
    head->boot[n > 0 ? n : 0] = 0;
    head->boot[strcspn(head->boot, "\n")] = 0;
    if (file >= 0)
        close(file);
    if (!getcwd(path, sizeof path))
        *path = 0;
    size_t n_bytes = strlen(path), most = sizeof head->folder - 1;
    snprintf(head->folder, sizeof head->folder, "%s", path + (n_bytes > most ? n_bytes - most : 0));
}

static uint64_t run_number(void) {
    const char *text = cushim_environment(CUSHIM_RUN_VARIABLE);
    return text ? strtoull(text, NULL, 16) : 0;
}

void cushim_live_begin(void) {
    struct cushim_page_head *head = &cushim_page.head;
    memcpy(head->magic, CUSHIM_PAGE_MAGIC, sizeof head->magic);
    head->layout = cushim_page_layout();
    atomic_store(&head->state, CUSHIM_PAGE_RUNNING);
    head->address = (uint64_t)&cushim_page;
    head->run = run_number();
    head->process = cushim_process.process;
    head->rank = cushim_path_rank();
    head->ranks = cushim_path_ranks();
    head->start_ns = cushim_clock_ns();
    head->is_software = cushim_driver_is_software(); /* known in a child only; other processes learn
                                                      * it later */
    head->is_relaxed = cushim_process.policy.is_relaxed;
    head->sample_bytes = cushim_process_options.sites;
    head->namespace = cushim_page_namespace();
    snprintf(head->program, sizeof head->program, "%s", program_invocation_short_name);
    snprintf(head->version, sizeof head->version, "%s", CUSHIM_VERSION_TEXT);
    gethostname(head->host, sizeof head->host - 1);
    note_place(head);
    note_arguments(head);
    note_options(head);
    if (!cushim_process_options.live || !cushim_process_options.cushim)
        return;
    int error = make();
    live.is_on = !error;
    if (error)
        log_info("live", "no live page: %s", strerror(error));
    else
        cushim_mem_cache_made = give_row;
}

void cushim_live_in_child(bool is_fresh) {
    cushim_page.head.process = live.is_on ? cushim_page.head.process : cushim_process.process;
    if (!live.is_on)
        return;
    live.is_on = false;
    map_in_child();
    if (is_fresh)
        cushim_live_begin();
}

bool cushim_live_is_on(void) {
    return live.is_on;
}

bool cushim_live_is_cut(void) {
    return !cushim_page.head.layout || atomic_load(&map.is_cut);
}

bool cushim_live_leave(dev_t device, ino_t inode) {
    bool is_all = live.is_on && map_has_all() &&
                  !cushim_mem_stats_read(&cushim_page.head.n_lost_caches) &&
                  cushim_mem_stats_read(&cushim_page.n_findings) <= CUSHIM_PAGE_FINDINGS;
    if (is_all && live.device == device && live.inode == inode) {
        cushim_page.head.end_ns = cushim_clock_ns();
        atomic_store(&cushim_page.head.state, CUSHIM_PAGE_LEFT);
    }
    return atomic_load(&cushim_page.head.state) == CUSHIM_PAGE_LEFT;
}

void cushim_live_end(void) {
    if (!live.is_on || atomic_load(&cushim_page.head.state) == CUSHIM_PAGE_LEFT ||
        cushim_process.process != getpid())
        return;
    atomic_store(&cushim_page.head.state, CUSHIM_PAGE_REPORTED);
    int folder = cushim_page_folder_open(false);
    if (folder < 0)
        return;
    unlinkat(folder, live.name, 0);
    close(folder);
}
