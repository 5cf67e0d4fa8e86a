#include "preload/state/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "memory/cache/cache.h"
#include "preload/state/live_map.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"
#include "report/page_file.h"

struct cushim_page cushim_page;
struct cushim_page_sites cushim_page_sites;

/* Written by the thread that reads the options, or by a child when it was forked. */
static struct {
    bool is_on;
    char name[CUSHIM_PAGE_NAME_BYTES];
    dev_t device; /* and inode of the folder */
    ino_t inode;
} live;

/* Under the registry's lock of the caches. */
static void give_row(struct cushim_mem_cache *cache) {
    struct cushim_page_head *head = &cushim_page.head;
    cushim_mem_stats_add(cushim_live_map_row(cache) ? &head->n_caches : &head->n_lost_caches, 1);
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
    int error = file < 0 ? errno : cushim_live_map_begin(folder, live.name, file);
    if (file >= 0 && error)
        unlinkat(folder, live.name, 0);
    close(folder);
    return error;
}

/* As the kernel lays them out: one text behind the other.  The vector may be the program's to
 * change, and what it then points to may be gone; these bytes stay. */
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

/* Those that were set, but for where things are shown, which `cushim run` sets by itself. */
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

/* Where it runs: a folder whose name is cut has its end. */
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
    const char *text = secure_getenv(CUSHIM_RUN_VARIABLE);
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
    head->is_software = cushim_driver_is_software(); /* in a child; else it is not known yet */
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
    cushim_live_map_in_child();
    if (is_fresh)
        cushim_live_begin();
}

bool cushim_live_leave(dev_t device, ino_t inode) {
    bool is_all = live.is_on && cushim_live_map_has_all() &&
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
