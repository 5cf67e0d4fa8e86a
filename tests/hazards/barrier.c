/*
 * Each statement about cudaFree's barrier (docs/internals/memory-engine.md, "Exact frees") is a
 * row: a gate holds work back, unrelated memory is freed, and the row checks whether the work is
 * done by then.
 *
 *   barrier [--tries N] [--until-wrong] [--patience MS] [--case NAME]
 *
 * It prints a line per row: its name, what it depends on, `right` or `wrong`, and the number of
 * wrong tries:
 *   order   only the order of streams: right whatever a free does
 *   reuse   memory is not reused before its work is done
 *   seen    the barrier for effects that the host can see: `relaxed` keeps it
 *   barrier the barrier itself: `relaxed` gives it up
 *
 * The gate opens after the check, or after a while, which ends a free that waits. So a free that
 * waits is always right, and one that does not wait is wrong unless this process happens to pause;
 * --until-wrong tries again until a try is wrong, at most --tries times.
 */
#include "barrier_rows.h"
#include "reuse_rows.h"

static const struct row rows[] = {
    {"pinned_source_is_refilled", "seen", pinned_source_is_refilled},
    {"pinned_copy_is_read", "seen", pinned_copy_is_read},
    {"registered_copy_is_read", "seen", registered_copy_is_read},
    {"word_of_a_stream_is_read", "seen", word_of_a_stream_is_read},
    {"host_function_has_run", "seen", host_function_has_run},
    {"stream_callback_has_run", "seen", stream_callback_has_run},
    {"graph_launch_is_done", "seen", graph_launch_is_done},
    {"pinned_result_of_a_kernel_is_read", "barrier", pinned_result_is_read},
    {"registered_result_of_a_kernel_is_read", "barrier", registered_result_is_read},
    {"managed_result_of_a_kernel_is_read", "barrier", managed_result_is_read},
    {"elapsed_time_is_ready", "barrier", elapsed_time_is_ready},
    {"event_is_done", "barrier", event_is_done},
    {"stream_is_done", "barrier", stream_is_done},
    {"another_thread_reads", "barrier", another_thread_reads},
    {"another_process_reads", "barrier", another_process_reads},
    {"free_by_another_thread", "barrier", free_by_another_thread},
    {"free_of_large_memory", "barrier", free_of_large_memory},
    {"free_of_pitched_memory", "barrier", free_of_pitched_memory},
    {"free_of_pinned_memory", "barrier", free_of_pinned_memory},
    {"free_of_managed_memory", "barrier", free_of_managed_memory},
    {"free_during_a_capture", "barrier", free_during_a_capture},
    {"written_memory_is_reused", "reuse", written_memory_is_reused},
    {"read_memory_is_reused", "reuse", read_memory_is_reused},
    {"large_memory_is_reused", "reuse", large_memory_is_reused},
    {"memory_of_a_graph_is_reused", "seen", memory_of_a_graph_is_reused},
    {"memory_freed_by_another_thread_is_reused", "reuse", memory_freed_elsewhere_is_reused},
    {"memory_freed_during_a_capture_is_reused", "reuse", memory_freed_in_capture_is_reused},
    {"memory_freed_under_a_copy_of_another_device_is_reused", "reuse", peer_memory_is_reused},
    {"written_pinned_memory_is_reused", "reuse", pinned_memory_is_reused},
    {"written_managed_memory_is_reused", "reuse", managed_memory_is_reused},
    {"memory_freed_in_stream_order_is_reused", "order", ordered_memory_is_reused},
    {"print_has_come_out", "barrier", print_has_come_out},
    {"print_from_before_has_come_out", "barrier", print_from_before_has_come_out},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

struct options {
    unsigned n_tries;
    int until_wrong;
    const char *only;
};

static int is_asked_for(const struct options *options, const char *name) {
    return !options->only || strcmp(options->only, name) == 0;
}

static void print_verdict(const char *name, const char *leans_on, unsigned n_wrong) {
    printf("%s %s %s %u\n", name, leans_on, n_wrong ? "wrong" : "right", n_wrong);
    fflush(stdout);
}

static void run(const struct options *options, const struct row *row) {
    unsigned n_wrong = 0;
    if (!is_asked_for(options, row->name))
        return;
    for (unsigned i = 0; i < options->n_tries && !(options->until_wrong && n_wrong); i++) {
        enum answer answer = row->try_it(&world, world.streams[STREAM_NON_BLOCKING], 1000 + i);
        settle();
        if (answer == ABSENT)
            return; /* this device lacks the feature */
        n_wrong += answer == WRONG;
    }
    print_verdict(row->name, row->leans_on, n_wrong);
}

/* Write on one stream and read on another, for every pair of kinds and of threads. */
static void run_pairs(const struct options *options) {
    for (int from = 0; from < N_PLACES; from++) {
        for (int to = 0; to < N_PLACES; to++) {
            char name[100];
            unsigned n_wrong = 0;
            snprintf(name, sizeof name, "written_on_%s_read_on_%s", places[from], places[to]);
            if (is_same_stream(from, to) || !is_asked_for(options, name))
                continue;
            for (unsigned i = 0; i < options->n_tries && !(options->until_wrong && n_wrong); i++)
                n_wrong += try_pair(&world, from, to, 5000 + i) == WRONG;
            print_verdict(name, is_ordered(from, to) ? "order" : "barrier", n_wrong);
        }
    }
}

/* Last, because nothing in the context works afterwards. */
static void run_fault(const struct options *options) {
    if (is_asked_for(options, "fault_is_reported"))
        print_verdict("fault_is_reported", "barrier", fault_is_reported(&world) == WRONG);
}

int main(int argc, char **argv) {
    struct options options = {(unsigned)program_option(argc, argv, "--tries", 3),
                              program_flag(argc, argv, "--until-wrong"), NULL};
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--case") == 0)
            options.only = argv[i + 1];
    }
    world_create((unsigned)program_option(argc, argv, "--patience", 8));
    for (unsigned i = 0; i < N_ROWS; i++)
        run(&options, &rows[i]);
    run_pairs(&options);
    run_fault(&options);
    world_destroy();
    return 0;
}
