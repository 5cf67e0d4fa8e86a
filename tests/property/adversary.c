/* More generators: sizes near the limits of classes and pages, devices filled to the last page, and
 * streams, captures and contexts at once. */
#include "generators.h"

#include "tools/sim/sim.h"

enum { GRAIN = 512 };

/* A size near a fraction of a page, an eighth of a doubling, or whole pages. */
static size_t edge(struct maker *maker) {
    static const int beside[] = {-GRAIN, -1, 0, 1, GRAIN};
    size_t n_bytes = 0, what = maker_below(maker, 8);
    if (what < 4)
        n_bytes = PAGE_BYTES / maker_between(maker, 2, what < 2 ? 16 : 130) / GRAIN * GRAIN;
    else if (what < 7)
        n_bytes = (maker_between(maker, 9, 16) * GRAIN) << maker_below(maker, 8);
    else
        n_bytes = PAGE_BYTES * maker_between(maker, 1, 4);
    return n_bytes + (size_t)beside[maker_below(maker, sizeof beside / sizeof *beside)];
}

static size_t pages_of(size_t n_bytes) {
    return n_bytes > MIB ? large_bytes(n_bytes) : PAGE_BYTES;
}

/* Many blocks of one size, up to a share of the device. */
static void fill(struct maker *maker, size_t n_bytes, size_t n, size_t share_pct) {
    size_t most = maker->device_bytes / 100 * share_pct;
    while (n-- && sim_used_bytes(0) + pages_of(n_bytes) <= most)
        maker_ask(maker, n_bytes);
}

void make_edges(struct maker *maker) {
    for (size_t round = maker_between(maker, 3, 8); round; round--) {
        size_t first = maker->n_live, n = maker_between(maker, 2, 6);
        fill(maker, edge(maker), maker_between(maker, 5, 150), maker_between(maker, 50, 100));
        if (maker_below(maker, 2))
            fill(maker, edge(maker), maker_between(maker, 5, 150), 100);
        maker_let_go_every(maker, first, n, maker_below(maker, n));
        for (size_t i = maker_below(maker, 40); i; i--)
            maker_below(maker, 3) ? (void)maker_ask(maker, edge(maker)) : maker_let_go_any(maker);
        if (maker_below(maker, 3) == 0)
            maker_let_go_every(maker, first, 1, 0);
    }
    maker_ask(maker, maker_free_bytes(maker));
}

/* Fill the device until no block of a size fits, then free a few and request others. */
void make_brim(struct maker *maker) {
    size_t high = maker->device_bytes / maker_between(maker, 4, 64);
    for (size_t i = 0; i < 400 && maker_free_bytes(maker) > 0; i++)
        maker_ask(maker, maker_below(maker, 2) ? edge(maker) : maker_any_size(maker, 512, high));
    for (size_t i = 0; i < 60; i++) {
        for (size_t n = maker_between(maker, 1, 4); n; n--)
            maker_let_go_any(maker);
        size_t n_bytes = maker_below(maker, 2) ? edge(maker) : maker_any_size(maker, 512, high);
        for (size_t n = maker_between(maker, 1, 5); n && maker_ask(maker, n_bytes); n--) {
        }
        if (maker_below(maker, 4) == 0)
            maker_ask(maker, maker_free_bytes(maker));
    }
}

/* Each thread has a block of many sizes, which other threads free. */
void make_crowd(struct maker *maker) {
    maker->n_threads = N_THREADS;
    for (size_t round = maker_between(maker, 2, 5); round; round--) {
        size_t n = maker_between(maker, 10, 60), first = maker->n_live;
        for (size_t i = 0; i < n; i++) {
            size_t n_bytes = edge(maker);
            for (int thread = 0; thread < N_THREADS; thread++)
                fill(maker, n_bytes, 1, 100);
        }
        if (maker_below(maker, 2))
            maker_let_go_every(maker, first, 1, 0);
        while (maker->n_live > first && maker_below(maker, 100))
            maker_let_go_any(maker);
        maker_ask(maker, maker_free_bytes(maker));
        maker_ask(maker, maker_free_bytes(maker) / 2);
    }
}

/* Of n blocks of a small size one stays, and blocks of other sizes are put between. */
void make_islands(struct maker *maker) {
    maker->slack_quarters = 5; /* README.md explains the number */
    size_t n = maker_between(maker, 2, 16);
    size_t first_bytes = GRAIN * maker_between(maker, 4, 512 / n);
    fill(maker, first_bytes, 20000, maker_between(maker, 50, 100));
    for (size_t remainder = 1; remainder < n; remainder++)
        maker_let_go_every(maker, 0, n - remainder + 1, 1);
    size_t n_bytes = GRAIN * maker_between(maker, 1, (n - 1) * first_bytes / GRAIN);
    for (size_t i = 0; i < 20000 && maker_ask(maker, n_bytes); i++) {
    }
}

/* Streams, captures and contexts at once. */
void make_tangle(struct maker *maker) {
    size_t high = maker->device_bytes / 16, capturing = N_STREAMS;
    for (size_t i = 0; i < 300; i++) {
        size_t what = maker_below(maker, 40), n_bytes = maker_any_size(maker, 512, high);
        size_t place = maker_below(maker, N_CONTEXTS), stream = maker_below(maker, N_STREAMS);
        if (maker_below(maker, 3) == 0)
            n_bytes = edge(maker);
        if (what == 0) {
            maker_act(maker, STEP_CONTEXT_ENTER, place);
        } else if (what == 1 && maker->world.contexts[place] && place) {
            maker_act(maker, STEP_CONTEXT_END, place);
            maker_forget_dead(maker);
        } else if (what == 2 && capturing == N_STREAMS) {
            maker_act(maker, STEP_CAPTURE_BEGIN, capturing = stream | 1);
            maker->is_capturing = true;
        } else if (what < 5 && capturing < N_STREAMS) {
            maker_act(maker, STEP_CAPTURE_END, capturing);
            maker->is_capturing = false;
            capturing = N_STREAMS;
        } else if (what < 9 && stream != capturing) {
            maker_launch(maker);
        } else if (what == 9 && capturing == N_STREAMS && maker->world.context == 0) {
            maker_act(maker, STEP_SYNC, 0);
            maker->late_bytes = 0;
        } else if (what < 24 && maker_free_bytes(maker) >= pages_of(n_bytes)) {
            maker_ask(maker, n_bytes);
        } else if (maker->n_live && what % 2) {
            maker_let_go_any(maker);
        } else if (maker->n_live && stream != capturing) {
            size_t which = maker_below(maker, maker->n_live);
            if (world_block(&maker->world, maker->live[which])->context == 0)
                maker_let_go_async(maker, which, stream);
        }
    }
    if (capturing < N_STREAMS)
        maker_act(maker, STEP_CAPTURE_END, capturing);
    maker_act(maker, STEP_CONTEXT_ENTER, 0);
    maker_act(maker, STEP_SYNC, 0);
}
