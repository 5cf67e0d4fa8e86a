#include "base/bits.h"
#include "tools/cushim/recording/recording.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "report/site.h"
#include "tools/cushim/recording/history.h"

#define BIT(kind) ((uint64_t)1 << CUSHIM_KIND_##kind)

/* ---- files ---- */

static int is_trace(const struct dirent *entry) {
    return cushim_path_ends_in(entry->d_name, CUSHIM_TRACE_ENDING);
}

int recording_files(struct recording_files *files, const char *path) {
    *files = (struct recording_files){NULL, 0};
    return recording_files_add(files, path);
}

int recording_files_add(struct recording_files *files, const char *path) {
    struct stat status;
    struct dirent **entries = NULL;
    if (stat(path, &status) != 0)
        return errno;
    bool is_folder = S_ISDIR(status.st_mode);
    int n = is_folder ? scandir(path, &entries, is_trace, alphasort) : 1;
    if (n < 0)
        return errno;
    char **paths = reallocarray(files->paths, files->n + (size_t)n + 1, sizeof *paths);
    bool is_well = paths != NULL;
    files->paths = is_well ? paths : files->paths;
    for (int i = 0; i < n; i++) {
        char *name = NULL;
        if (is_well && is_folder)
            is_well = asprintf(&name, "%s/%s", path, entries[i]->d_name) >= 0;
        else if (is_well)
            is_well = (name = strdup(path)) != NULL;
        if (is_well)
            files->paths[files->n++] = name;
        if (is_folder)
            free(entries[i]);
    }
    free(entries);
    if (!is_well)
        recording_files_free(files);
    return is_well ? 0 : ENOMEM;
}

void recording_files_free(struct recording_files *files) {
    for (size_t i = 0; i < files->n; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct recording_files){NULL, 0};
}

const char *recording_error(int error) {
    return error == ENOEXEC           ? "no recording; `cushim record` makes one"
           : error == EPROTONOSUPPORT ? "a recording of another version of cushim"
                                      : strerror(error);
}

/* ---- scopes ---- */

/* For each device and kind of a scope. */
#define EACH_PLACE(scope, device, kind)                                                            \
    for (int device = (scope)->device < 0 ? 0 : (scope)->device;                                   \
         device < ((scope)->device < 0 ? CUSHIM_TRACE_DEVICES : (scope)->device + 1); device++)    \
        for (int kind = 0; kind < CUSHIM_TRACE_KINDS; kind++)                                      \
            if ((scope)->kinds >> kind & 1)

/* Sum a counter, which is `offset` bytes into the sums of a device and kind, over a scope. */
static uint64_t sum_of(const struct cushim_trace_account *account,
                       const struct recording_scope *scope, size_t offset) {
    uint64_t n_bytes = 0;
    EACH_PLACE(scope, device, kind)
    n_bytes += *(const uint64_t *)((const char *)&account->sums[device][kind] + offset);
    return n_bytes;
}

uint64_t recording_live_bytes(const struct cushim_trace_account *account,
                              const struct recording_scope *scope) {
    return sum_of(account, scope, offsetof(struct cushim_trace_sums, live_bytes));
}

uint64_t recording_held_bytes(const struct cushim_trace_account *account,
                              const struct recording_scope *scope) {
    return sum_of(account, scope, offsetof(struct cushim_trace_sums, held_bytes));
}

static void take_sums(struct recording_scope *scope, const struct cushim_trace_account *account) {
    scope->n_events = account->n_events;
    scope->n_start = account->n_start;
    scope->run_ns = account->last_ns - account->first_ns;
    EACH_PLACE(scope, device, kind) {
        const struct cushim_trace_sums *sums = &account->sums[device][kind];
        scope->n_requests += sums->n_requests;
        scope->n_hits += sums->n_hits;
        scope->n_live += sums->n_live;
        scope->live_bytes += sums->live_bytes;
        scope->n_waits += sums->n_waits;
        scope->wait_ns += sums->wait_ns;
        scope->n_refused += sums->n_refused;
        /* segments of mapped memory are what is idle */
        scope->n_calls += sums->n_calls + (kind == CUSHIM_KIND_MAPPED ? 0 : sums->n_moves);
        scope->n_before += sums->n_before;
        scope->before_bytes += sums->before_bytes;
    }
}

static struct recording_scope all_scopes(int i) {
    if (i == CUSHIM_TRACE_DEVICES)
        return (struct recording_scope){
            .device = RECORDING_PINNED, .devices = UINT64_MAX, .kinds = BIT(PINNED)};
    if (i > CUSHIM_TRACE_DEVICES)
        return (struct recording_scope){
            .device = RECORDING_IMPORTED, .devices = UINT64_MAX, .kinds = BIT(IMPORTED)};
    return (struct recording_scope){
        .device = i, .devices = (uint64_t)1 << i, .kinds = ~(BIT(PINNED) | BIT(IMPORTED))};
}

unsigned recording_scope_of(unsigned device, unsigned kind) {
    return kind == CUSHIM_KIND_PINNED     ? CUSHIM_TRACE_DEVICES
           : kind == CUSHIM_KIND_IMPORTED ? CUSHIM_TRACE_DEVICES + 1
                                          : device;
}

/* Only the scope of the event can have changed. */
static void take_peak(struct recording_scope *scopes, const struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    if (event->code != CUSHIM_TRACE_ALLOC && event->code != CUSHIM_TRACE_SEGMENT)
        return;
    struct recording_scope *scope = &scopes[recording_scope_of(event->device, event->kind)];
    uint64_t live = recording_live_bytes(account, scope),
             held = recording_held_bytes(account, scope);
    if (live > scope->peak_bytes) {
        scope->peak_bytes = live;
        scope->peak_ns = event->time_ns - account->first_ns;
    }
    if (held > scope->peak_held_bytes)
        scope->peak_held_bytes = held;
}

int recording_scopes(const char *path, struct recording_scope scopes[RECORDING_SCOPES]) {
    static struct cushim_trace_account account; /* too large for a stack */
    int n = 0, error = cushim_trace_account_open(&account, path);
    if (error)
        return -error;
    for (int i = 0; i < RECORDING_SCOPES; i++)
        scopes[i] = all_scopes(i);
    while (cushim_trace_account_next(&account))
        take_peak(scopes, &account);
    error = account.error;
    for (int i = 0; i < RECORDING_SCOPES; i++) {
        take_sums(&scopes[i], &account);
        if (scopes[i].n_requests || scopes[i].n_refused || scopes[i].n_before)
            scopes[n++] = scopes[i];
    }
    cushim_trace_account_close(&account);
    return error ? -error : n;
}

const char *recording_scope_name(const struct recording_scope *scope, char text[32]) {
    if (scope->device < 0)
        snprintf(text, 32, "%s memory", scope->device == RECORDING_PINNED ? "pinned" : "imported");
    else
        snprintf(text, 32, "device %d", scope->device);
    return text;
}

/* ---- sites of the program ---- */

struct first {
    struct cushim_trace_site *site;
    unsigned n;
};

static int compare_first(const void *left, const void *right) {
    const struct first *a = left, *b = right;
    unsigned n_a = a->site->n_frames - a->n, n_b = b->site->n_frames - b->n;
    int order = cushim_order(n_a, n_b);
    if (!order)
        order = memcmp(a->site->frames + a->n, b->site->frames + b->n, n_a * sizeof(uint64_t));
    return order ? order : cushim_order(a->site->number, b->site->number);
}

static void add_site(struct cushim_trace_site *to, struct cushim_trace_site *from) {
    from->number = to->number; /* because a history finds the joined site by its number */
    if (from->n_live && (!to->n_live || from->oldest_ns < to->oldest_ns))
        to->oldest_ns = from->oldest_ns;
    to->n_requests += from->n_requests;
    to->requested_bytes += from->requested_bytes;
    to->n_live += from->n_live;
    to->live_bytes += from->live_bytes;
    to->n_frees += from->n_frees;
    to->life_ns += from->life_ns;
    to->n_temporary += from->n_temporary;
    to->n_waits += from->n_waits;
    to->wait_ns += from->wait_ns;
    to->n_refused += from->n_refused;
    to->n_noted += from->n_noted;
    to->noted_bytes += from->noted_bytes;
    for (int i = 0; i < CUSHIM_TRACE_SAMPLES; i++)
        to->sample_bytes[i] += from->sample_bytes[i];
}

/* Join sites that differ only in the path of a request through CUDA and cushim. */
static int join_sites(struct recording *recording) {
    struct cushim_trace_account *account = &recording->account;
    size_t n = 0;
    struct first *firsts = reallocarray(NULL, account->n_sites, sizeof *firsts);
    if (!firsts)
        return ENOMEM;
    for (size_t i = 0; i < account->n_sites; i++)
        firsts[i] =
            (struct first){account->sites[i], names_first(recording->names, account->sites[i])};
    qsort(firsts, account->n_sites, sizeof *firsts, compare_first);
    for (size_t i = 0; i < account->n_sites; i++) {
        struct cushim_trace_site *site = firsts[i].site, *last = n ? account->sites[n - 1] : NULL;
        unsigned n_frames = site->n_frames - firsts[i].n;
        /* sites without a frame of the program come first, and are not joined */
        if (last && n_frames && n_frames == firsts[i - 1].site->n_frames - firsts[i - 1].n &&
            memcmp(site->frames + firsts[i].n, firsts[i - 1].site->frames + firsts[i - 1].n,
                   n_frames * sizeof(uint64_t)) == 0)
            add_site(last, site);
        else
            account->sites[n++] = site;
    }
    account->n_sites = n;
    names_tell_apart(recording->names, account);
    free(firsts);
    return 0;
}

static void note_device(struct recording *recording, const struct cushim_trace_event *event) {
    if (event->code != CUSHIM_TRACE_DEVICE)
        return;
    recording->devices[event->device].n_bytes = event->n_bytes;
    snprintf(recording->devices[event->device].name, sizeof recording->devices->name, "%.*s",
             (int)event->text_bytes, event->text);
}

uint64_t recording_end_ns(const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    char host[sizeof head->host] = "";
    gethostname(host, sizeof host - 1);
    bool runs = atomic_load(&head->state) == CUSHIM_TRACE_RUNNING && !atomic_load(&head->end_ns) &&
                strcmp(host, head->host) == 0 && kill((pid_t)head->process, 0) == 0;
    return runs ? cushim_clock_ns() : cushim_trace_account_end_ns(account);
}

int recording_read(struct recording *recording, const char *path,
                   const struct recording_scope *scope, struct history *history) {
    struct cushim_trace_account *account = &recording->account;
    unsigned n_samples = 0;
    bool is_noted = false;
    recording->names = NULL;
    memset(recording->devices, 0, sizeof recording->devices);
    int error = cushim_trace_account_open(account, path);
    if (error)
        return error;
    account->devices = scope->devices;
    account->kinds = scope->kinds;
    account->until_ns = scope->until_ns;
    if (history) {
        account->foresee = history_foresee;
        account->foresee_context = history;
    }
    while (cushim_trace_account_next(account)) {
        note_device(recording, &account->event);
        if (history)
            history_see(history, account);
        if (!is_noted && account->event.code == CUSHIM_TRACE_ALLOC &&
            recording_live_bytes(account, scope) == scope->peak_bytes) {
            cushim_trace_account_note(account);
            is_noted = true;
        }
        while (n_samples < CUSHIM_TRACE_SAMPLES - 1 && account->n_events > scope->n_start &&
               (account->n_events - scope->n_start) * CUSHIM_TRACE_SAMPLES >=
                   (scope->n_events - scope->n_start) * (n_samples + 1))
            cushim_trace_account_sample(account, n_samples++);
    }
    while (n_samples < CUSHIM_TRACE_SAMPLES)
        cushim_trace_account_sample(account, n_samples++);
    if (history)
        history_end(history, account);
    cushim_trace_account_date(account);
    error = account->error;
    if (!error)
        error = names_find(&recording->names, account);
    if (!error)
        error = join_sites(recording);
    for (size_t i = 0; !error && i < account->n_sites; i++)
        account->sites[i]->grows = cushim_site_grows(
            account->sites[i]->sample_bytes, account->sample_ns, CUSHIM_TRACE_SAMPLES,
            recording_end_ns(account), 0, scope->peak_bytes, &account->sites[i]->hour_bytes);
    if (error)
        recording_close(recording);
    return error;
}

int recording_each_scope(const char *path, struct history *history, unsigned most_moments,
                         recording_see_fn *see, void *context) {
    static struct recording recording; /* too large for a stack, as the next */
    static struct recording_scope scopes[RECORDING_SCOPES];
    int n = recording_scopes(path, scopes), error = n < 0 ? -n : 0, n_readings = n ? n : 1;
    for (int i = 0; !error && i < n_readings; i++) {
        scopes[i].until_ns = scopes[i].run_ns; /* because its process may go on writing */
        if (history)
            history_begin(history, &scopes[i], most_moments / (unsigned)n_readings);
        error = recording_read(&recording, path, &scopes[i], history);
        if (!error) {
            error = see(context, &recording, n ? &scopes[i] : NULL, i, n);
            recording_close(&recording);
        }
        if (history)
            history_free(history);
    }
    return error;
}

void recording_close(struct recording *recording) {
    names_free(recording->names);
    cushim_trace_account_close(&recording->account);
}
