/*
 * The runner: every case of every family, one line of TAP per subject.
 *
 *   kernel-cases [--filter PATTERN] [--small] [--few] [--thin] [--sample N[:K]] [--bare] [--key N]
 *                [--list]
 *
 * PATTERN matches "family/subject", with * and ?, or a part of it without. --small leaves out the
 * cases of many elements. --few takes four of the small ones of each subject. --thin takes one in
 * six of those that only have other values than an earlier case of the same sizes: of five kinds of
 * values with five sizes, each kind and each size once. --sample adds one in N: the K-th of every
 * N, or a different one each day without K; the output says which. --bare leaves out the guard
 * zones and what fills outputs, for sanitizers.  The environment says where the kernels run
 * (CUSHIM_LIBCUDA, CUSHIM_KERNEL_ARCH, CUSHIM_SIM_CAPABILITY).
 */
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cushim/cushim.h"
#include "kernels/tests/frame/frame.h"

enum { MOST_TEXT = 1024, MOST_SHOWN = 12, N_FEW = 4, THIN_STEP = 6, SMALL_ELEMENTS = 70000 };

struct options {
    const char *filter;
    uint64_t key;
    unsigned long sample, turn; /* one case in this many, from that one on; 0 means none */
    bool is_small, is_few, is_thin, is_bare, is_list;
};

/* ---- a fault of the host: say in which case ---- */

static char now[MOST_TEXT];

static void die(int number) {
    static const char word[] = "Bail out! a signal in ";
    if (write(STDOUT_FILENO, word, sizeof word - 1) > 0 &&
        write(STDOUT_FILENO, now, strlen(now)) > 0)
        (void)!write(STDOUT_FILENO, "\n", 1);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(void) {
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], die);
}

/* ---- which cases ---- */

static void fill(struct kernel_table *table) {
#define FAMILY(name)                                                                               \
    table->family = #name;                                                                         \
    cases_##name(table);
#include "kernels/launch/families.def"
#undef FAMILY
}

static bool is_wanted(const struct options *options, const struct kernel_entry *entry) {
    char name[MOST_TEXT];
    snprintf(name, sizeof name, "%s/%s", entry->family, entry->c.subject->name);
    if (!options->filter)
        return true;
    return strpbrk(options->filter, "*?[") ? fnmatch(options->filter, name, 0) == 0
                                           : strstr(name, options->filter) != NULL;
}

static bool is_small(const struct kernel_entry *entry) {
    return case_elements(&entry->c) <= SMALL_ELEMENTS;
}

/* The place of an entry among the small cases of its subject, and how many there are. */
static size_t rank_few(const struct kernel_table *table, size_t at, size_t *n_small) {
    size_t rank = 0;
    *n_small = 0;
    for (size_t i = 0; i < table->n; i++) {
        const struct kernel_entry *entry = &table->entries[i];
        if (entry->c.subject != table->entries[at].c.subject || !is_small(entry))
            continue;
        rank += i < at;
        *n_small += 1;
    }
    return rank;
}

/* Whether it is one of the few, which are spread over the small cases and include the last. */
static bool is_of_few(const struct kernel_table *table, size_t at) {
    size_t n, rank;
    if (!is_small(&table->entries[at]))
        return false;
    rank = rank_few(table, at, &n);
    return n <= N_FEW || (rank + 1) * N_FEW / n > rank * N_FEW / n;
}

/* Whether an earlier case of its subject has the same sizes and addresses. */
static bool has_other_values(const struct kernel_table *table, size_t at) {
    const struct kernel_case *c = &table->entries[at].c;
    for (int i = 0; i < c->n_operands; i++) {
        if (c->operands[i].offset)
            return false;
    }
    for (size_t i = 0; i < at; i++) {
        const struct kernel_case *earlier = &table->entries[i].c;
        if (earlier->subject == c->subject &&
            memcmp(earlier->sizes, c->sizes, sizeof c->sizes) == 0)
            return true;
    }
    return false;
}

static bool is_thinned_out(const struct kernel_table *table, size_t at) {
    size_t rank = 0;
    if (!has_other_values(table, at))
        return false;
    for (size_t i = 0; i < at; i++)
        rank += table->entries[i].c.subject == table->entries[at].c.subject &&
                has_other_values(table, i);
    return rank % THIN_STEP != 0;
}

/* Whether PATTERN names it. */
static bool is_taken(const struct options *options, const struct kernel_table *table, size_t at) {
    if (options->sample && at % options->sample == options->turn)
        return true;
    if (options->is_small && !is_small(&table->entries[at]))
        return false;
    if (options->is_thin && is_thinned_out(table, at))
        return false;
    return !options->is_few || is_of_few(table, at);
}

/* The first entry of a subject stands for it. */
static bool is_first(const struct kernel_table *table, size_t at) {
    for (size_t i = 0; i < at; i++) {
        if (table->entries[i].c.subject == table->entries[at].c.subject)
            return false;
    }
    return true;
}

/* ---- running ---- */

/* The lines below the verdict on a subject. */
struct faults {
    size_t n_run, n_failed;
    char texts[MOST_SHOWN][2 * MOST_TEXT + 8];
};

static void run_subject(const struct frame *frame, const struct options *options,
                        const struct kernel_table *table, size_t first, struct faults *faults) {
    char text[MOST_TEXT];
    faults->n_run = faults->n_failed = 0;
    for (size_t i = first; i < table->n; i++) {
        struct kernel_case *c = &table->entries[i].c;
        if (c->subject != table->entries[first].c.subject)
            continue;
        if (!is_taken(options, table, i))
            continue;
        case_describe(c, now, sizeof now);
        faults->n_run++;
        if (frame_run(frame, c, options->key, text, sizeof text))
            continue;
        if (faults->n_failed < MOST_SHOWN)
            snprintf(faults->texts[faults->n_failed], sizeof faults->texts[0], "%s: %s", now, text);
        faults->n_failed++;
    }
}

static void report_subject(const struct kernel_entry *entry, size_t number,
                           const struct faults *faults) {
    printf("%s %zu - %s/%s, %zu cases", faults->n_failed ? "not ok" : "ok", number, entry->family,
           entry->c.subject->name, faults->n_run);
    printf(faults->n_failed ? ", %zu failed\n" : "\n", faults->n_failed);
    for (size_t i = 0; i < faults->n_failed && i < MOST_SHOWN; i++)
        printf("# %s\n", faults->texts[i]);
    fflush(stdout);
}

static int run_all(const struct options *options, const struct kernel_table *table) {
    static struct faults faults;
    struct frame frame = {.is_bare = options->is_bare};
    size_t n_subjects = 0, n_bad = 0, number = 0;
    for (size_t i = 0; i < table->n; i++)
        n_subjects += is_first(table, i) && is_wanted(options, &table->entries[i]);
    if (cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &frame.stream) !=
        CUSHIM_OK) {
        printf("1..1\nnot ok 1 - a stream: %s\n", cushim_last_error());
        return EXIT_FAILURE;
    }
    printf("1..%zu\n", n_subjects);
    if (options->sample)
        printf("# --sample %lu:%lu\n", options->sample, options->turn);
    for (size_t i = 0; i < table->n; i++) {
        if (!is_first(table, i) || !is_wanted(options, &table->entries[i]))
            continue;
        run_subject(&frame, options, table, i, &faults);
        report_subject(&table->entries[i], ++number, &faults);
        n_bad += faults.n_failed > 0;
    }
    cushim_stream_destroy(frame.stream);
    return n_bad || !n_subjects ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void list(const struct options *options, const struct kernel_table *table) {
    char text[MOST_TEXT];
    for (size_t i = 0; i < table->n; i++) {
        if (!is_wanted(options, &table->entries[i]) || !is_taken(options, table, i))
            continue;
        case_describe(&table->entries[i].c, text, sizeof text);
        printf("%s/%s\n", table->entries[i].family, text);
    }
}

/* ---- the command line ---- */

/* N or N:K */
static bool read_sample(struct options *options, const char *text) {
    enum { DAY_S = 24 * 60 * 60 };
    char *end;
    options->sample = strtoul(text, &end, 10);
    if (!options->sample)
        return false;
    options->turn = (unsigned long)(time(NULL) / DAY_S) % options->sample;
    if (*end == ':')
        options->turn = strtoul(end + 1, &end, 10);
    return !*end && options->turn < options->sample;
}

static bool read_options(struct options *options, int argc, char **argv) {
    *options = (struct options){.key = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            options->is_small = true;
        else if (strcmp(argv[i], "--few") == 0)
            options->is_few = true;
        else if (strcmp(argv[i], "--thin") == 0)
            options->is_thin = true;
        else if (strcmp(argv[i], "--bare") == 0)
            options->is_bare = true;
        else if (strcmp(argv[i], "--list") == 0)
            options->is_list = true;
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            options->filter = argv[++i];
        else if (strcmp(argv[i], "--key") == 0 && i + 1 < argc)
            options->key = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--sample") != 0 || i + 1 == argc ||
                 !read_sample(options, argv[++i]))
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    struct options options;
    struct kernel_table table = {0};
    int n_devices = 0, code = EXIT_SUCCESS;
    if (!read_options(&options, argc, argv)) {
        fputs("kernel-cases [--filter PATTERN] [--small] [--few] [--thin] [--sample N[:K]] "
              "[--bare] [--key N] [--list]\n",
              stderr);
        return 2;
    }
    fill(&table);
    if (options.is_list) {
        list(&options, &table);
    } else if (cushim_device_count(&n_devices) != CUSHIM_OK || n_devices == 0) {
        puts("1..0 # SKIP no CUDA device");
    } else {
        watch();
        code = run_all(&options, &table);
    }
    free(table.entries);
    return code;
}
