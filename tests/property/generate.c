/* The generators: each imitates how programs, or adversaries, allocate memory. */
#include "generators.h"

#include "tools/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void uniform(struct maker *maker) {
    maker_churn(maker, 300, 512, maker_largest(maker));
}

static void large(struct maker *maker) {
    maker_churn(maker, 300, MIB + 1, maker->device_bytes / 16);
}

static void small(struct maker *maker) {
    maker_churn(maker, 600, 512, MIB);
}

static void power(struct maker *maker) {
    size_t target = maker->device_bytes / 100 * maker_between(maker, 70, 100);
    for (size_t i = 0; i < 400; i++) {
        size_t n_bytes = 512, cap = maker_largest(maker);
        while (n_bytes < cap && maker_below(maker, 20) < 16)
            n_bytes *= 2;
        n_bytes += maker_below(maker, n_bytes);
        if (sim_used_bytes(0) + large_bytes(n_bytes) + PAGE_BYTES <= target &&
            maker_below(maker, 3))
            maker_ask(maker, n_bytes);
        else
            maker_let_go_any(maker);
    }
}

/* As many blocks of one size as fill a share of the free memory. */
static void load(struct maker *maker, size_t n, size_t share_pct) {
    size_t n_bytes = maker_free_bytes(maker) / 100 * share_pct / (n ? n : 1);
    n_bytes = n_bytes / PAGE_BYTES * PAGE_BYTES;
    n_bytes = n_bytes ? n_bytes - maker_below(maker, MIB - 1) : 512 * maker_between(maker, 1, 2048);
    while (n-- && maker_free_bytes(maker) >= large_bytes(n_bytes) && maker_ask(maker, n_bytes)) {
    }
}

static void phases(struct maker *maker) {
    for (size_t round = maker_between(maker, 2, 5); round; round--) {
        size_t first = maker->n_live;
        load(maker, maker_between(maker, 10, 80), maker_between(maker, 50, 100));
        size_t n = maker_between(maker, 2, 4);
        maker_let_go_every(maker, first, n, maker_below(maker, n));
        load(maker, maker_between(maker, 5, 40), maker_between(maker, 50, 100));
        for (size_t i = maker_between(maker, 0, maker->n_live); i; i--)
            maker_let_go_any(maker);
    }
    maker_ask(maker, maker_free_bytes(maker));
}

static void comb(struct maker *maker) {
    size_t n = maker_between(maker, 8, 60),
           whole = maker->device_bytes / 100 * maker_between(maker, 70, 100);
    size_t a = whole / n / 100 * maker_between(maker, 10, 90), b = whole / n - a,
           first = maker->n_live;
    for (size_t i = 0; i < n && maker_free_bytes(maker) >= a + b + 4 * PAGE_BYTES; i++) {
        maker_ask(maker, a);
        maker_ask(maker, b);
    }
    maker_let_go_every(maker, first, 2, 1);
    load(maker, maker_between(maker, 1, n), maker_between(maker, 60, 100));
    maker_let_go_every(maker, first, 2, 0);
    maker_ask(maker, maker_free_bytes(maker) / 2);
    maker_ask(maker, maker_free_bytes(maker));
}

static void harmonic(struct maker *maker) {
    for (size_t i = 0; i < 400; i++) {
        size_t k = maker_between(maker, 1, 8),
               n_bytes = maker_below(maker, 2) ? PAGE_BYTES / k : PAGE_BYTES * k;
        n_bytes = n_bytes / 512 * 512 + 512 * maker_below(maker, 3) - 512;
        if (maker_free_bytes(maker) >= large_bytes(n_bytes) + PAGE_BYTES &&
            maker_below(maker, 5) > 1)
            maker_ask(maker, n_bytes);
        else
            maker_let_go_any(maker);
    }
}

/* Weights stay; each step's tensors are larger than the last one's. */
static void growth(struct maker *maker) {
    size_t n_weights = maker_between(maker, 0, 20), n = maker_between(maker, 2, 6),
           n_steps = maker_between(maker, 10, 40);
    load(maker, n_weights, maker_between(maker, 10, 40));
    size_t first = maker->n_live, start = maker_between(maker, 8, 64);
    size_t unit =
        maker_free_bytes(maker) / 100 * maker_between(maker, 85, 98) / n / (start + n_steps);
    for (size_t i = 1; i <= n_steps; i++) {
        for (size_t j = 0; j < n; j++)
            maker_ask(maker, unit * (start + i));
        maker_let_go_every(maker, first, 1, 0);
    }
}

static void sawtooth(struct maker *maker) {
    for (size_t tooth = maker_between(maker, 4, 10); tooth; tooth--) {
        size_t high = maker->device_bytes / maker_between(maker, 4, 64) + 512, left;
        while ((left = maker_free_bytes(maker)) >= high + PAGE_BYTES)
            maker_ask(maker, maker_any_size(maker, high / 32 > 512 ? high / 32 : 512, high));
        if (left > PAGE_BYTES)
            maker_ask(maker, left - PAGE_BYTES * maker_below(maker, 2));
        for (size_t n = maker->n_live * maker_between(maker, 50, 100) / 100; n; n--)
            maker_let_go_any(maker);
    }
}

/* A model is loaded: each weight has a staging block, which is freed; then one large request. */
static void load_model(struct maker *maker, size_t n_bytes, size_t fill_pct, size_t want_bytes) {
    size_t n =
        maker->device_bytes / 100 * fill_pct / (n_bytes > MIB ? large_bytes(n_bytes) : n_bytes);
    for (size_t i = 0; i < n / 2; i++) {
        maker_ask(maker, n_bytes);
        maker_ask(maker, n_bytes);
    }
    maker_let_go_every(maker, 0, 2, 1);
    maker_ask(maker, want_bytes ? want_bytes
                                : maker_free_bytes(maker) / 100 * maker_between(maker, 50, 100));
    maker_ask(maker, maker_free_bytes(maker));
}

/* ---- the traces of the table ---- */

/* Random sizes that keep a given amount live. */
static void random_sizes(struct maker *maker, size_t n_steps, size_t high, size_t live_bytes) {
    for (size_t i = 0; i < n_steps; i++) {
        if (maker->world.live_bytes < live_bytes && maker_below(maker, 8))
            maker_ask(maker, maker_between(maker, 1, high));
        else
            maker_let_go_any(maker);
    }
}

static void random_64m(struct maker *maker) {
    random_sizes(maker, 6000, 64 * MIB, 16 * GIB);
}

static void random_8m(struct maker *maker) {
    random_sizes(maker, 6000, 8 * MIB, 2 * GIB);
}

static void larson(struct maker *maker) {
    for (size_t i = 0; i < 1000; i++)
        maker_ask(maker, maker_any_size(maker, 512, MIB));
    for (size_t i = 0; i < 5000; i++) {
        maker_let_go_any(maker);
        maker_ask(maker, maker_any_size(maker, 512, MIB));
    }
}

static void pack(struct maker *maker) {
    for (size_t i = 0; i < 1000; i++)
        maker_ask(maker, 1100000);
    maker_let_go_every(maker, 0, 3, 0);
    maker_let_go_every(maker, 0, 2, 0);
    maker_ask(maker, maker_free_bytes(maker));
}

/* A recorded program: tests/bench. */
static void recorded(struct maker *maker, const char *path) {
    FILE *file = fopen(path, "r");
    char line[80];
    size_t n;
    if (!file)
        exit(3);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "a %zu", &n) == 1)
            maker_ask(maker, n);
        else if (sscanf(line, "f %zu", &n) == 1) /* blocks are numbered from 0, like slots */
            maker_take(maker, (struct step){.kind = STEP_FREE, .slot = (uint32_t)n});
    }
    fclose(file);
}

static void frag(struct maker *maker) {
    size_t n_pairs = maker_between(maker, 20, 250), n_bytes = maker->device_bytes / 2 / n_pairs;
    if (n_bytes < 3 * MIB / 2)
        n_bytes = 3 * MIB / 2;
    load_model(maker, n_bytes / 512 * 512 - 512 * maker_below(maker, 3),
               maker_between(maker, 60, 98), 0);
}

/* Work on streams and frees on others; blocks freed there count as taken until the device is
 * idle. */
static void streams(struct maker *maker) {
    size_t high = maker->device_bytes / 16;
    for (size_t i = 0; i < 400; i++) {
        size_t n_bytes = maker_any_size(maker, 512, high), what = maker_below(maker, 16);
        size_t pages = n_bytes > MIB ? large_bytes(n_bytes) : PAGE_BYTES;
        if (what < 3) {
            maker_launch(maker);
        } else if (what == 3) {
            maker->late_bytes = 0;
            maker_act(maker, STEP_SYNC, 0);
        } else if (what < 11 && maker_free_bytes(maker) >= pages) {
            maker_ask(maker, n_bytes);
        } else if (maker->n_live && what % 2) {
            maker_let_go_any(maker);
        } else if (maker->n_live) {
            maker_let_go_async(maker, maker_below(maker, maker->n_live),
                               maker_below(maker, N_STREAMS));
        }
    }
}

/* Blocks are freed on a stream that is busy for long, then others on an idle one. */
static void behind(struct maker *maker) {
    size_t n = maker_between(maker, 50, 200), n_bytes = maker_any_size(maker, 64 << 10, 4 * MIB);
    load(maker, maker_between(maker, 0, 10), 10);
    size_t first = maker->n_live;
    while (maker->n_live < first + n &&
           maker_free_bytes(maker) / 2 > large_bytes(n_bytes) + PAGE_BYTES)
        maker_ask(maker, n_bytes);
    maker_act(maker, STEP_GATE, 1);
    while (maker->n_live > first)
        maker_let_go_async(maker, maker->n_live - 1, 1);
    for (size_t round = 0; round < 25; round++) {
        for (size_t i = 0; i < 8; i++)
            maker_ask(maker, n_bytes);
        while (maker->n_live > first)
            maker_let_go_async(maker, maker->n_live - 1, 3);
        maker_act(maker, STEP_STREAM_SYNC, 3);
    }
    maker_act(maker, STEP_GATE_OPEN, 0);
    maker_act(maker, STEP_SYNC, 0);
    maker->late_bytes = 0;
    maker_ask(maker, maker_free_bytes(maker));
}

static void contexts(struct maker *maker) {
    for (size_t i = maker_between(maker, 3, 12); i; i--) {
        size_t place = maker_below(maker, N_CONTEXTS);
        maker_act(maker, STEP_CONTEXT_ENTER, place);
        maker_churn(maker, maker_between(maker, 10, 60), 512, maker->device_bytes / 16);
        if (place && maker_below(maker, 2)) {
            maker_act(maker, STEP_CONTEXT_END, place);
            maker_forget_dead(maker);
        }
    }
    maker_ask(maker, maker_free_bytes(maker));
}

static void captures(struct maker *maker) {
    for (size_t i = maker_between(maker, 3, 12); i; i--) {
        size_t stream = maker_below(maker, N_STREAMS / 2) * 2 + 1; /* a non-blocking stream */
        maker_launch(maker);
        maker_act(maker, STEP_SYNC, 0);
        maker_act(maker, STEP_CAPTURE_BEGIN, stream);
        maker->is_capturing = true;
        maker_churn(maker, maker_between(maker, 2, 30), 512, maker->device_bytes / 16);
        maker->is_capturing = false;
        maker->late_bytes = 0;
        maker_act(maker, STEP_CAPTURE_END, stream);
        maker_churn(maker, maker_between(maker, 2, 30), 512, maker->device_bytes / 16);
    }
}

/* Rounds of a capture in which blocks are allocated and freed; little is live. */
static void loops(struct maker *maker) {
    size_t high = maker_between(maker, 1, 16) * MIB, n = 4 * maker->device_bytes / high;
    for (size_t i = n < 400 ? n : 400; i; i--) {
        maker_ask(maker, maker_between(maker, high / 2, high));
        maker_act(maker, STEP_CAPTURE_BEGIN, 1);
        maker_ask(maker, maker_between(maker, high / 2, high));
        maker_let_go(maker, 1);
        maker_let_go(maker, 0);
        maker_act(maker, STEP_CAPTURE_END, 1);
    }
}

static void threads(struct maker *maker) {
    maker->n_threads = N_THREADS;
    maker_churn(maker, 150, 512, maker->device_bytes / 16);
    phases(maker);
}

static void wrong(struct maker *maker) {
    for (size_t i = 0; i < 30; i++) {
        maker_churn(maker, 8, 512, maker->device_bytes / 16);
        if (maker->n_live) {
            uint32_t slot = maker->live[maker_below(maker, maker->n_live)];
            maker_take(maker, (struct step){.kind = STEP_FREE_WRONG, .slot = slot});
        }
        maker_take(maker, (struct step){.kind = STEP_FREE, .slot = maker->n_slots++}); /* NULL */
        maker_ask(maker, 0);
        maker->n_slots++;
    }
}

/* `low` and `high`: the device's size is between these powers of 2, in 2 MiB; 17: 140 GiB. */
static const struct generator {
    const char *name;
    void (*make)(struct maker *maker);
    int low, high;
} generators[] = {
    {"uniform", uniform, 5, 16},      {"large", large, 7, 16},
    {"small", small, 5, 6},           {"power", power, 5, 16},
    {"phases", phases, 7, 16},        {"comb", comb, 7, 16},
    {"harmonic", harmonic, 5, 8},     {"growth", growth, 9, 16},
    {"sawtooth", sawtooth, 7, 16},    {"frag", frag, 9, 16},
    {"streams", streams, 7, 14},      {"behind", behind, 10, 16},
    {"contexts", contexts, 7, 14},    {"captures", captures, 7, 14},
    {"loops", loops, 7, 10},          {"threads", threads, 7, 14},
    {"edges", make_edges, 5, 12},     {"brim", make_brim, 5, 12},
    {"crowd", make_crowd, 7, 12},     {"tangle", make_tangle, 7, 14},
    {"wrong", wrong, 7, 14},          {"random-64m", random_64m, 17, 17},
    {"random-8m", random_8m, 17, 17}, {"larson", larson, 17, 17},
    {"pack", pack, 17, 17},           {"islands", make_islands, 5, 6},
};

enum { N_BY_HAND = 5 }; /* the last ones are long: see the table and README.md */

const char *trace_generator(unsigned i) {
    return i < sizeof generators / sizeof *generators - N_BY_HAND ? generators[i].name : NULL;
}

static const struct generator *find(const char *name) {
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++) {
        if (strcmp(generators[i].name, name) == 0)
            return &generators[i];
    }
    return NULL;
}

/* A recording is named file:<its path>; a known case is named frag-<GiB of the device>-<KiB of a
 * block>-<% of the device filled>-<% requested at the end>. */
static const char *recording(const char *name) {
    return strncmp(name, "file:", 5) == 0 ? name + 5 : NULL;
}

static bool read_frag(const char *name, size_t parts[4]) {
    return sscanf(name, "frag-%zu-%zu-%zu-%zu", &parts[0], &parts[1], &parts[2], &parts[3]) == 4;
}

size_t trace_device_bytes(const char *name, uint64_t seed) {
    size_t parts[4];
    if (read_frag(name, parts))
        return parts[0] * GIB;
    if (recording(name))
        return 140 * GIB;
    const struct generator *generator = find(name);
    if (!generator)
        return 0;
    struct maker maker = {.state = seed * 0x2545f4914f6cdd1du};
    size_t power = maker_between(&maker, (size_t)generator->low, (size_t)generator->high);
    size_t n_pages = ((size_t)1 << power) + maker_below(&maker, (size_t)1 << power);
    return (n_pages < 71680 ? n_pages : 71680) * PAGE_BYTES; /* 140 GiB */
}

static size_t in_pages(size_t n_bytes) {
    return (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* For a device that drains; README.md explains the amount. */
static struct trace_head head_of(const struct maker *maker, uint64_t seed) {
    size_t budget = maker->device_bytes / 64 < 32 * MIB ? maker->device_bytes / 64 : 32 * MIB;
    size_t quarters = maker->slack_quarters ? maker->slack_quarters : 1;
    size_t peak = maker->peak_small_bytes, small = peak ? peak / 4 * quarters + 8 * MIB : 0;
    /* for live blocks that are larger than requested: a 64th of the device including the slack */
    size_t waste = (maker->device_bytes + budget + small) / 63;
    return (struct trace_head){seed, maker->n_steps, maker->device_bytes,
                               in_pages(budget + waste) + in_pages(small), in_pages(budget)};
}

static void write_all(int fd, const void *from, size_t n_bytes) {
    for (const char *at = from; n_bytes;) {
        ssize_t n = write(fd, at, n_bytes);
        if (n <= 0)
            exit(3);
        at += n;
        n_bytes -= (size_t)n;
    }
}

void trace_generate(const char *name, uint64_t seed, int fd) {
    struct maker maker = {.state = ~seed * 0x2545f4914f6cdd1du};
    size_t parts[4];
    maker.device_bytes = trace_device_bytes(name, seed);
    world_open(&maker.world, false);
    if (read_frag(name, parts))
        load_model(&maker, parts[1] << 10, parts[2], maker.device_bytes / 100 * parts[3]);
    else if (recording(name))
        recorded(&maker, recording(name));
    else
        find(name)->make(&maker);
    struct trace_head head = head_of(&maker, seed);
    write_all(fd, &head, sizeof head);
    write_all(fd, maker.steps, maker.n_steps * sizeof *maker.steps);
}
