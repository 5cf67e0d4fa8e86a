#include "base/bits.h"
#include "tools/cushim/recording/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cushim/recording/recording.h"

void history_begin(struct history *history, const struct recording_scope *scope,
                   unsigned most_moments) {
    memset(history, 0, sizeof *history);
    history->scope = scope;
    history->most_moments = most_moments < HISTORY_MOMENTS ? most_moments : HISTORY_MOMENTS;
    if (most_moments && most_moments < HISTORY_LEAST_MOMENTS)
        history->most_moments = HISTORY_LEAST_MOMENTS;
}

/* ---- moments ---- */

static int by_bytes(const void *left, const void *right) {
    const struct history_share *a = left, *b = right;
    int order = cushim_order(b->n_bytes, a->n_bytes);
    return order ? order : cushim_order(a->site->number, b->site->number);
}

static void add_moment(struct history *history, const struct cushim_trace_account *account,
                       uint64_t ns, bool is_peak, bool has_map) {
    if (history->n_moments == sizeof history->moments / sizeof *history->moments)
        return;
    struct history_moment *moment = &history->moments[history->n_moments];
    if (history->n_moments && ns < moment[-1].ns)
        ns = moment[-1].ns;
    *moment = (struct history_moment){.ns = ns, .is_peak = is_peak};
    size_t n = 0;
    for (size_t i = 0; i < account->n_sites; i++)
        n += account->sites[i]->live_bytes != 0;
    moment->shares = reallocarray(NULL, n + 1, sizeof *moment->shares);
    if (!moment->shares) {
        history->error = ENOMEM;
        return;
    }
    for (size_t i = 0; i < account->n_sites; i++) {
        if (account->sites[i]->live_bytes)
            moment->shares[moment->n++] =
                (struct history_share){account->sites[i], account->sites[i]->live_bytes};
    }
    qsort(moment->shares, moment->n, sizeof *moment->shares, by_bytes);
    for (; moment->n > HISTORY_SHARES; moment->n--)
        moment->rest_bytes += moment->shares[moment->n - 1].n_bytes;
    history->n_moments++;
    if (has_map)
        history->error = map_make(&moment->map, account, history->scope, MAP_MOST_ROWS);
}

/* ---- buckets ---- */

static unsigned bucket_at(const struct history *history, uint64_t ns) {
    uint64_t run_ns = history->scope->run_ns;
    return run_ns ? (unsigned)((__uint128_t)ns * (HISTORY_BUCKETS - 1) / run_ns) : 0;
}

/* The bucket of a time.  All new buckets up to it begin with the present values. */
static struct history_bucket *bucket_of(struct history *history, uint64_t ns) {
    unsigned i = bucket_at(history, ns);
    while (history->n_buckets <= i && history->n_buckets < HISTORY_BUCKETS)
        history->buckets[history->n_buckets++] = history->now;
    return &history->buckets[history->n_buckets - 1]; /* because time never goes back by much */
}

static void take_level(struct history *history, const struct cushim_trace_account *account,
                       uint64_t ns) {
    struct history_bucket *bucket = bucket_of(history, ns), *now = &history->now;
    now->least = now->most = recording_live_bytes(account, history->scope);
    now->held = recording_held_bytes(account, history->scope);
    for (int i = 0; history->scope->device >= 0 && i < CUSHIM_N_KINDS; i++) {
        if (history->scope->kinds >> i & 1)
            now->of_kinds[i] = account->sums[history->scope->device][i].live_bytes;
        history->kinds |= (uint64_t)(now->of_kinds[i] != 0) << i;
    }
    if (now->least < bucket->least) {
        bucket->least = now->least;
        memcpy(bucket->of_kinds, now->of_kinds, sizeof now->of_kinds);
    }
    if (now->most > bucket->most)
        bucket->most = now->most;
    if (now->held > bucket->held)
        bucket->held = now->held;
}

/* ---- marks and copies ---- */

static void copy_text(char to[HISTORY_TEXT_BYTES], const struct cushim_trace_event *event) {
    snprintf(to, HISTORY_TEXT_BYTES, "%.*s", (int)event->text_bytes, event->text);
}

static void add_mark(struct history *history, const struct cushim_trace_account *account,
                     uint64_t ns) {
    if (history->n_marks == HISTORY_MARKS) {
        history->n_more_marks++;
        return;
    }
    struct history_mark *mark = &history->marks[history->n_marks++];
    mark->ns = ns;
    if (account->event.code == CUSHIM_TRACE_MARK) {
        copy_text(mark->text, &account->event);
    } else {
        mark->n_bytes = account->event.n_bytes;
        mark->site = account->site;
    }
}

static void add_copy(struct history *history, const struct cushim_trace_event *event) {
    struct history_copies wanted = {.is_to_host = event->flags & CUSHIM_TRACE_TO_HOST,
                                    .is_by_driver = event->flags & CUSHIM_TRACE_NATIVELY};
    copy_text(wanted.why, event);
    unsigned i = 0;
    for (; i < history->n_copies; i++) {
        const struct history_copies *row = &history->copies[i];
        if (row->is_to_host == wanted.is_to_host && row->is_by_driver == wanted.is_by_driver &&
            strcmp(row->why, wanted.why) == 0)
            break;
    }
    if (i == HISTORY_COPIES) /* only a made-up recording has so many */
        return;
    if (i == history->n_copies)
        history->copies[history->n_copies++] = wanted;
    struct history_copies *row = &history->copies[i];
    row->n++;
    row->n_bytes += event->n_bytes;
    row->n_timed += event->number != 0;
    row->timed_bytes += event->number ? event->n_bytes : 0;
    row->ns += event->number;
}

/* ---- events ---- */

/* A moment is taken at the end of a time in which nothing changed, so it is right for all of
 * that time. */
void history_foresee(const struct cushim_trace_account *account, void *context) {
    struct history *history = context;
    const uint64_t ns = cushim_trace_account_since(account, account->event.time_ns);
    if (ns < history->next_ns || !history->is_changed || history->n_even == history->most_moments)
        return;
    const uint64_t step = history->scope->run_ns / history->most_moments + 1;
    const unsigned maps_every = (history->most_moments + HISTORY_MAPS - 1) / HISTORY_MAPS;
    add_moment(history, account, history->changed_ns, false, history->n_even % maps_every == 0);
    history->n_even++;
    history->next_ns = (ns / step + 1) * step;
    history->is_changed = false;
}

void history_see(struct history *history, const struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    const uint64_t ns = cushim_trace_account_since(account, event->time_ns);
    bool is_in_scope = recording_scope_has(history->scope, event->device, event->kind);
    bool is_refusal = event->code == CUSHIM_TRACE_REFUSE && is_in_scope;
    if (event->code == CUSHIM_TRACE_COPY)
        add_copy(history, event);
    if (event->code == CUSHIM_TRACE_MARK || is_refusal)
        add_mark(history, account, ns);
    if (is_refusal && history->n_refusals++ < HISTORY_REFUSALS)
        add_moment(history, account, ns, false, true);
    if (!is_in_scope || (event->code != CUSHIM_TRACE_ALLOC && event->code != CUSHIM_TRACE_FREE &&
                         event->code != CUSHIM_TRACE_SEGMENT))
        return;
    take_level(history, account, ns);
    if (event->code == CUSHIM_TRACE_SEGMENT)
        return;
    history->is_changed = true;
    history->changed_ns = ns;
    if (!history->has_peak && event->code == CUSHIM_TRACE_ALLOC &&
        history->now.most == history->scope->peak_bytes) {
        add_moment(history, account, ns, true, true);
        history->peak = history->now;
        history->has_peak = true;
    }
}

void history_end(struct history *history, const struct cushim_trace_account *account) {
    bucket_of(history, history->scope->run_ns);
    add_moment(history, account, history->scope->run_ns, false, true);
    if (!(history->kinds & (history->kinds - 1)))
        history->kinds = 0;
}

void history_free(struct history *history) {
    for (unsigned i = 0; i < history->n_moments; i++) {
        free(history->moments[i].shares);
        map_free(&history->moments[i].map);
    }
    history->n_moments = 0;
}
