/*
 * The time that the preload adds to a short process: the same command runs alternately without and
 * with LD_PRELOAD and is timed from before posix_spawn to its end.
 *
 *   startup --preload FILE [--runs N] --name CASE -- COMMAND [ARGUMENT ...]
 *
 * It prints two lines: without the preload, and with it, with the median of the time that each turn
 * added and the 95 % interval of that median.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

struct settings {
    const char *preload, *name;
    char **command;
    size_t n_runs;
};

/* The environment without LD_PRELOAD and cushim's options; `added` is appended unless NULL. */
static char **environment(char *added) {
    size_t n = 0, n_kept = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + 2, sizeof *copy);
    if (!copy)
        bench_fail("memory for an environment", 0);
    for (size_t i = 0; i < n; i++) {
        bool is_option =
            !strncmp(environ[i], "CUSHIM", 6) && strncmp(environ[i], "CUSHIM_SIM_", 11);
        if (!is_option && strncmp(environ[i], "LD_PRELOAD=", 11))
            copy[n_kept++] = environ[i];
    }
    copy[n_kept] = added;
    return copy;
}

static uint64_t run_once(char **command, char **environment,
                         const posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int status = 0;
    uint64_t start_ns = bench_now_ns();
    int error = posix_spawn(&pid, command[0], actions, NULL, command, environment);
    if (error)
        bench_fail(command[0], error);
    if (wait4(pid, &status, 0, NULL) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
        bench_fail(command[0], status);
    return bench_now_ns() - start_ns;
}

static void print_line(const char *name, const char *variant, const struct bench_stats *stats) {
    printf("{\"case\": \"startup/%s\", \"variant\": \"%s\", \"n\": %zu, \"p0_ns\": %.0f, "
           "\"p50_ns\": %.0f, \"p99_ns\": %.0f, \"max_ns\": %.0f, \"mean_ns\": %.1f",
           name, variant, stats->n, stats->p0_ns, stats->p50_ns, stats->p99_ns, stats->max_ns,
           stats->mean_ns);
}

static void measure(const struct settings *settings) {
    size_t n = settings->n_runs;
    struct bench_samples native = bench_samples_create(n), preloaded = bench_samples_create(n);
    int64_t *added_ns = calloc(n, sizeof *added_ns);
    char preload[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", settings->preload);
    char **plain = environment(NULL), **with = environment(preload);
    posix_spawn_file_actions_t actions;
    if (!added_ns || posix_spawn_file_actions_init(&actions) ||
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0))
        bench_fail("preparing to spawn", 0);

    for (int i = 0; i < 2; i++) { /* loads the files into the page cache */
        run_once(settings->command, plain, &actions);
        run_once(settings->command, with, &actions);
    }
    for (size_t i = 0; i < n; i++) { /* the order changes every turn */
        uint64_t ns[2];
        for (size_t turn = 0; turn < 2; turn++) {
            size_t which = (i + turn) % 2;
            ns[which] = run_once(settings->command, which ? with : plain, &actions);
        }
        native.ns[native.n++] = ns[0];
        preloaded.ns[preloaded.n++] = ns[1];
        added_ns[i] = (int64_t)ns[1] - (int64_t)ns[0];
    }
    struct bench_interval added = bench_interval_of(added_ns, n);
    struct bench_stats stats = bench_stats_of(&native);
    print_line(settings->name, "native", &stats);
    printf("}\n");
    stats = bench_stats_of(&preloaded);
    print_line(settings->name, "cushim", &stats);
    printf(", \"added_ns\": %lld, \"added_low_ns\": %lld, \"added_high_ns\": %lld}\n",
           (long long)added.middle, (long long)added.low, (long long)added.high);

    posix_spawn_file_actions_destroy(&actions);
    free(with);
    free(plain);
    free(added_ns);
    bench_samples_destroy(&preloaded);
    bench_samples_destroy(&native);
}

int main(int argc, char **argv) {
    struct settings settings = {.n_runs = 200};
    int i = 1;
    for (; i + 1 < argc && strcmp(argv[i], "--"); i += 2) {
        if (!strcmp(argv[i], "--preload"))
            settings.preload = argv[i + 1];
        else if (!strcmp(argv[i], "--name"))
            settings.name = argv[i + 1];
        else if (!strcmp(argv[i], "--runs"))
            settings.n_runs = strtoull(argv[i + 1], NULL, 10);
        else
            bench_fail(argv[i], 2);
    }
    if (i + 1 >= argc || !settings.preload || !settings.name || !settings.n_runs)
        bench_fail("usage: startup --preload FILE --name CASE [--runs N] -- COMMAND ...", 2);
    settings.command = argv + i + 1;
    measure(&settings);
    return 0;
}
