#include "tools/cushim/recording/counters.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/utf8.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"
#include "tools/cushim/usage.h"

_Static_assert((int)CUSHIM_TRACE_DEVICES == (int)CUSHIM_MAX_DEVICES &&
                   (int)CUSHIM_N_KINDS <= (int)CUSHIM_TRACE_KINDS,
               "each place of a report is one of a recording");

bool counters_is_recording(const char *what) {
    struct recording_files files;
    struct stat status;
    if (stat(what, &status) != 0)
        return false;
    if (!S_ISDIR(status.st_mode))
        return cushim_path_ends_in(what, CUSHIM_TRACE_ENDING);
    if (recording_files(&files, what) != 0)
        return false;
    bool has_any = files.n != 0;
    recording_files_free(&files);
    return has_any;
}

static void take_sums(struct cushim_mem_stats *stats, const struct cushim_trace_sums *sums) {
    uint64_t n_served = sums->n_hits + sums->n_native;
    atomic_store(&stats->n_requests, sums->n_requests);
    atomic_store(&stats->n_hits, sums->n_hits);
    atomic_store(&stats->n_natively, sums->n_native);
    atomic_store(&stats->n_misses, sums->n_requests > n_served ? sums->n_requests - n_served : 0);
    atomic_store(&stats->n_refused, sums->n_refused);
    atomic_store(&stats->n_frees, sums->n_frees);
    atomic_store(&stats->requested_bytes, sums->requested_bytes);
    atomic_store(&stats->live_bytes, sums->live_bytes);
    atomic_store(&stats->peak_live_bytes, sums->peak_live_bytes);
    atomic_store(&stats->held_bytes, sums->held_bytes);
    atomic_store(&stats->peak_held_bytes, sums->peak_held_bytes);
    atomic_store(&stats->n_waits, sums->n_waits);
    atomic_store(&stats->wait_ns, sums->wait_ns);
}

static void take_text(char to[CUSHIM_NAME_BYTES], const char *from, size_t most) {
    snprintf(to, CUSHIM_NAME_BYTES, "%.*s", (int)most, from);
    cushim_utf8_clean(to);
}

/* 0 or an errno. */
static int read_counters(struct cushim_report *report, const char *path) {
    static struct cushim_trace_account account; /* too large for a stack */
    int error = cushim_trace_account_open(&account, path);
    if (error)
        return error;
    while (cushim_trace_account_next(&account)) {
    }
    error = account.error;
    const struct cushim_trace_head *head = &account.reader.head;
    struct cushim_page_head *to = &report->page.head;
    static char end[64];
    *report = (struct cushim_report){.run_ns = account.last_ns - account.first_ns};
    to->process = (int64_t)head->process;
    to->rank = cushim_trace_rank(head);
    to->ranks = cushim_trace_ranks(head);
    to->run = head->run;
    atomic_store(&to->is_software, atomic_load(&head->is_software));
    take_text(to->program, head->program, sizeof head->program);
    if (atomic_load(&head->state) != CUSHIM_TRACE_ENDED || atomic_load(&head->next_status) > 1)
        report->ended = summary_end(head, end); /* the text is valid until the next one is read */
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
            take_sums(&report->page.stats[device][kind], &account.sums[device][kind]);
    }
    cushim_trace_account_close(&account);
    return error;
}

bool counters_reports_of(const char *what, reports_show_fn *show, void *context) {
    static struct cushim_report report;
    struct recording_files files;
    if (!counters_is_recording(what))
        return reports_of(what, show, context);
    int error = recording_files(&files, what);
    bool is_whole = !error;
    for (size_t i = 0; !error && i < files.n; i++) {
        struct report_origin origin = {files.paths[i], NULL, true};
        int wrong = read_counters(&report, files.paths[i]);
        if (!wrong)
            show(&report, &origin, context);
        else
            complain("%s: %s", files.paths[i], recording_error(wrong));
        is_whole &= !wrong;
    }
    if (error)
        complain("%s: %s", what, strerror(error));
    else
        recording_files_free(&files);
    return is_whole;
}
