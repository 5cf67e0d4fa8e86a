#include "tools/cushim/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/doctor/driver.h"
#include "tools/cushim/commands/run.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/program.h"
#include "tools/cushim/usage.h"

enum { NATIVELY, CUSHIM, N_WAYS, MOST_RUNS = 1000, FEWEST_TO_TELL = 3 };

struct request {
    unsigned n_runs;
    char **command;
    uint64_t ns[N_WAYS][MOST_RUNS];
    int status; /* of the first run without cushim */
};

/* Start the program in the child.  Both ways have the same variables, except LD_PRELOAD and
 * those that `cushim run` sets. */
static void become(const struct request *request, int way) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    if (way == CUSHIM)
        launch_run(NULL, request->command);
    else if (launch_unset())
        execvp(request->command[0], request->command);
    _exit(launch_refused(1, request->command - 1, errno)); /* an option may stand before it */
}

/* Returns the status as of waitpid(2), and how long the run took; -1, with errno, if nothing was
 * started. */
static int run_once(const struct request *request, int way, uint64_t *ns) {
    int status = -1;
    uint64_t start_ns = cushim_clock_ns();
    pid_t child = fork();
    if (child == 0)
        become(request, way);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *ns = cushim_clock_ns() - start_ns;
    return status;
}

static const char *end_of(int status, char text[40]) {
    snprintf(text, 40, "%s %d", WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return text;
}

/* A run that ends differently ends the comparison, because its time cannot be compared. */
static int run_all(struct request *request) {
    char text[2][40];
    for (unsigned i = 0; i < request->n_runs; i++) {
        for (int k = 0; k < N_WAYS; k++) {
            int way = i % 2 ? N_WAYS - 1 - k : k; /* alternate which way runs first */
            int status = run_once(request, way, &request->ns[way][i]);
            if (!i && !k)
                request->status = status;
            if (status == request->status && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGINT))
                continue;
            complain("%s ended with %s, but the first run without cushim with %s: nothing is "
                     "compared",
                     way == CUSHIM ? "under cushim it" : "without cushim it",
                     end_of(status, text[0]), end_of(request->status, text[1]));
            return EXIT_WRONG;
        }
    }
    return EXIT_WELL;
}

/* ---- output ---- */

static void put_way(struct cushim_writer *out, const char *name, const uint64_t ns[], unsigned n) {
    cushim_write(out, "  %-14s median %9s, from %s to %s\n", name,
                 text_of_time(numbers_median(ns, n)), text_of_time(ns[0]), text_of_time(ns[n - 1]));
}

static void put_verdict(struct cushim_writer *out, const struct request *request) {
    unsigned n = request->n_runs;
    const uint64_t *native = request->ns[NATIVELY], *ours = request->ns[CUSHIM];
    uint64_t native_ns = numbers_median(native, n), ours_ns = numbers_median(ours, n);
    uint64_t gap_ns = native_ns > ours_ns ? native_ns - ours_ns : ours_ns - native_ns;
    if (n < FEWEST_TO_TELL)
        cushim_write(out, "  too few runs to tell them apart: --runs=%d or more\n", FEWEST_TO_TELL);
    else if (ours[n - 1] < native[0] || native[n - 1] < ours[0])
        cushim_write(out, "  cushim is %s by %s (medians; the ranges do not overlap)\n",
                     ours_ns < native_ns ? "faster" : "slower",
                     text_of_share(gap_ns, native_ns ? native_ns : 1));
    else
        cushim_write(out, "  the ranges overlap: these runs show no difference\n");
}

static int put_all(struct request *request) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    struct driver driver;
    char wrong[256], text[40];
    bool is_software = driver_open(&driver, wrong, sizeof wrong) && driver_is_software(&driver);
    for (int way = 0; way < N_WAYS; way++)
        numbers_sort(request->ns[way], request->n_runs);
    cushim_write(&out, "%s: wall time of %s each way, in turns%s\n", request->command[0],
                 text_of_some(request->n_runs, "run"), is_software ? " (no GPU)" : "");
    if (request->status)
        cushim_write(&out, "  it FAILS, each time: %s\n", end_of(request->status, text));
    put_way(&out, "without cushim", request->ns[NATIVELY], request->n_runs);
    put_way(&out, "cushim", request->ns[CUSHIM], request->n_runs);
    put_verdict(&out, request);
    return usage_flush(&out);
}

/* Options of `cushim run` set variables.  They stay set for the runs without cushim, in which
 * nothing reads them. */
static int take_arguments(struct request *request, int argc, char **argv) {
    char path[PATH_MAX];
    const struct argument rows[] = {
        {"--runs", .number = &request->n_runs, .least = 1, .most = MOST_RUNS}, {0}};
    const struct arguments arguments = {.topic = "compare",
                                        .rows = rows,
                                        .take_other = run_take_option,
                                        .program = ARGUMENTS_PROGRAM};
    int first = arguments_read(&arguments, argc, argv);
    if (first < 0)
        return -first;
    request->command = argv + first;
    int error = program_find(argv[first], path);
    if (!error && access(path, X_OK) != 0)
        error = errno;
    return error ? launch_refused(first, argv, error) : EXIT_WELL;
}

int compare_main(int argc, char **argv) {
    static struct request request = {.n_runs = 5};
    int code = take_arguments(&request, argc, argv);
    if (code == EXIT_WELL)
        code = run_all(&request);
    return code == EXIT_WELL ? put_all(&request) : code;
}
