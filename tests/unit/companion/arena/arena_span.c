/* Free spans of an arena against a model, and how many of them a request inspects. */
#include <string.h>

#include "companion/arena/arena_region.h"
#include "tests/unit/suite.h"

/* So few places that no list has more spans than a request inspects. */
enum { N_PLACES = 30, N_STEPS = 4000, MOST_LOOKS = 16 };

static struct cushim_arena_spans spans;
static uint64_t stamp_of[N_PLACES]; /* length of a run of free places; 0: taken */
static uint64_t now, done;

static void begin(size_t n_places) {
    ck_assert(cushim_arena_spans_init(&spans, n_places));
}

/* ---- the model: spans are runs of free places ---- */

struct run {
    uint64_t at, n, stamp;
};

/* The next run at or after `at`; n 0: none. */
static struct run run_from(uint64_t at) {
    while (at < N_PLACES && !stamp_of[at])
        at++;
    struct run run = {.at = at};
    for (; at + run.n < N_PLACES && stamp_of[at + run.n]; run.n++) {
        if (stamp_of[at + run.n] > run.stamp)
            run.stamp = stamp_of[at + run.n];
    }
    return run;
}

static size_t count_runs(void) {
    size_t n = 0;
    for (struct run run = run_from(0); run.n; run = run_from(run.at + run.n))
        n++;
    return n;
}

/* The smallest run that is done and has n_grains; n 0: none. *is_deferred: one is not done. */
static struct run smallest(uint64_t n_grains, uint64_t up_to, bool *is_deferred) {
    struct run best = {0};
    *is_deferred = false;
    for (struct run run = run_from(0); run.n; run = run_from(run.at + run.n)) {
        if (run.n < n_grains)
            continue;
        if (run.stamp > up_to)
            *is_deferred = true;
        else if (!best.n || run.n < best.n)
            best = run;
    }
    return best;
}

static void give(uint64_t *random) {
    uint64_t at = suite_random(random) % N_PLACES, n = 0, most = 1 + suite_random(random) % 6;
    while (at + n < N_PLACES && n < most && !stamp_of[at + n])
        stamp_of[at + n++] = now;
    if (n)
        ck_assert(cushim_arena_spans_give(&spans, at, n, now));
}

static void take(uint64_t *random) {
    bool is_deferred;
    uint64_t at = UINT64_MAX, n = 1 + suite_random(random) % 12;
    uint64_t up_to = suite_random(random) % 4 ? done : UINT64_MAX;
    struct cushim_arena_span rest;
    struct run best = smallest(n, up_to, &is_deferred);
    ck_assert_int_eq(cushim_arena_spans_is_deferred(&spans, n, up_to), !best.n && is_deferred);
    enum cushim_arena_fit fit = cushim_arena_spans_take(&spans, n, up_to, &at, &rest);
    if (!best.n) {
        ck_assert_int_eq(fit, is_deferred ? CUSHIM_ARENA_FIT_DEFERRED : CUSHIM_ARENA_FIT_NONE);
        return;
    }
    ck_assert_int_eq(fit, CUSHIM_ARENA_FIT_TAKEN);
    struct run run = run_from(at);
    ck_assert(run.at == at && run.n == best.n && run.stamp <= up_to);
    ck_assert(at == 0 || !stamp_of[at - 1]);
    ck_assert(rest.at == at + n && rest.n_grains == run.n - n);
    for (uint64_t i = 0; i < run.n; i++)
        stamp_of[at + i] = i < n ? 0 : run.stamp;
}

static void step(uint64_t *random) {
    switch (suite_random(random) % 16) {
    case 0:
        now++;
        return;
    case 1:
        done = now - suite_random(random) % 2;
        return;
    case 2:
        if (suite_random(random) % 16)
            return;
        cushim_arena_spans_clear(&spans);
        memset(stamp_of, 0, sizeof stamp_of);
        return;
    default:
        if (suite_random(random) % 2)
            give(random);
        else
            take(random);
    }
}

TEST(spans_are_the_runs_of_free_places_and_the_smallest_fit_serves) {
    for (uint64_t seed = 1; seed <= suite_steps(60); seed++) {
        uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15);
        now = 1;
        done = 0;
        memset(stamp_of, 0, sizeof stamp_of);
        begin(N_PLACES);
        for (int i = 0; i < N_STEPS; i++) {
            step(&random);
            ck_assert_uint_eq(spans.n, count_runs());
        }
        cushim_arena_spans_finish(&spans);
    }
}

/* ---- many spans ---- */

/* Separate spans of two places; the first belongs to a later batch than the others. */
static void give_many(uint64_t n, uint64_t n_late) {
    for (uint64_t i = 0; i < n; i++)
        ck_assert(cushim_arena_spans_give(&spans, 3 * i, 2, i < n_late ? 2 : 1));
}

/* The span that a request finds if the first `n_late` of its list are not done. */
static enum cushim_arena_fit take_behind(uint64_t n_late) {
    uint64_t at;
    struct cushim_arena_span rest;
    begin(300);
    give_many(100, n_late);
    enum cushim_arena_fit fit = cushim_arena_spans_take(&spans, 2, 1, &at, &rest);
    cushim_arena_spans_finish(&spans);
    return fit;
}

TEST(a_request_inspects_only_the_first_spans_of_a_list) {
    ck_assert_int_eq(take_behind(MOST_LOOKS - 1), CUSHIM_ARENA_FIT_TAKEN);
    ck_assert_int_eq(take_behind(MOST_LOOKS), CUSHIM_ARENA_FIT_DEFERRED);
}

TEST(the_rest_of_a_span_serves_before_spans_of_later_batches) {
    uint64_t at;
    struct cushim_arena_span rest;
    begin(300);
    ck_assert(cushim_arena_spans_give(&spans, 200, 20, 1));
    give_many(40, 40);
    ck_assert_int_eq(cushim_arena_spans_take(&spans, 18, 1, &at, &rest), CUSHIM_ARENA_FIT_TAKEN);
    ck_assert_int_eq(cushim_arena_spans_take(&spans, 2, 1, &at, &rest), CUSHIM_ARENA_FIT_TAKEN);
    ck_assert_uint_eq(at, 218);
    cushim_arena_spans_finish(&spans);
}

SUITE() {
    return tests_run("arena span");
}
