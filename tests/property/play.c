/*
 * Plays traces. Each runs in its own process, forked before CUDA starts, so that each trace has its
 * own device size and a fresh state.
 *
 *   property-play make NAME FIRST N FILE    natively: N traces of a generator from a seed on, to a
 * file property-play judge FILE under the preload: a line a trace, what was found
 *   property-play steps FILE                the same, with a line a step: trace.h
 *   property-play show FILE                 the steps of a file, in words
 *   property-play names                     the generators
 *
 * The device should be unbacked (CUSHIM_SIM_UNBACKED=1), because traces touch no memory.
 */
#include "trace.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LIMIT_S = 180, /* processor time; most traces take milliseconds, frag-140-2048 15 s */
    LOOK_S = 5,
    MOST_IDLE = 12, /* checks in a row without progress, after which the trace counts as hanging */
    PROGRESS_NS = 100000 /* processor time; a check takes less */
};

/* Progress is measured in processor time, because a trace takes longer on a busy machine. */
static void look(int signal) {
    static struct timespec last;
    static int n_idle;
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    long gone_ns = (now.tv_sec - last.tv_sec) * 1000000000 + now.tv_nsec - last.tv_nsec;
    n_idle = gone_ns < PROGRESS_NS ? n_idle + 1 : 0;
    if (n_idle == MOST_IDLE)
        _exit(128 + signal);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &last);
    alarm(LOOK_S);
}

static void begin(size_t n_bytes) {
    char text[32];
    snprintf(text, sizeof text, "%zu", n_bytes);
    setenv("CUSHIM_SIM_MEMORY", text, 1);
    setrlimit(RLIMIT_CPU, &(struct rlimit){LIMIT_S, LIMIT_S + 10});
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = look, .sa_flags = SA_RESTART}, NULL);
    alarm(LOOK_S);
}

/* The child's result: 0, its exit code, or 128 + a signal. */
static int await(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int make(const char *name, uint64_t first, uint64_t n, const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (fd < 0 || !trace_device_bytes(name, first)) {
        fprintf(stderr, "property-play: no generator %s, or no file %s\n", name, path);
        return 2;
    }
    for (uint64_t seed = first; seed < first + n; seed++) {
        pid_t child = fork();
        if (child == 0) {
            begin(trace_device_bytes(name, seed));
            trace_generate(name, seed, fd);
            _exit(0);
        }
        int code = await(child);
        if (code != 0) {
            fprintf(stderr, "property-play: %s, seed %lu: natively %d\n", name, seed, code);
            return 1;
        }
    }
    return close(fd) == 0 ? 0 : 1;
}

static void show(const struct trace_head *head, const struct step *steps) {
    static const char *const words[] = {
        "alloc", "free",        "free_async", "free_wrong",  "launch",  "gate",       "open_gate",
        "sync",  "stream_sync", "capture",    "end_capture", "context", "end_context"};
    printf("seed %lu: device %lu, slack %lu\n", head->seed, head->device_bytes, head->slack_bytes);
    for (size_t i = 0; i < head->n_steps; i++) {
        printf("%4zu %-11s thread %d place %d slot %-5u bytes %-12lu answer %d used %lu%s\n", i + 1,
               words[steps[i].kind], steps[i].thread, steps[i].place, steps[i].slot,
               steps[i].n_bytes, steps[i].answer, steps[i].used_bytes,
               steps[i].is_late ? " at most" : "");
    }
}

static bool is_by_step;

static void judge(const struct trace_head *head, const struct step *steps) {
    fflush(stdout);
    struct trace_head own = *head;
    if (getenv("PROPERTY_NO_BUDGET"))
        own.slack_bytes -= own.budget_bytes;
    pid_t child = fork();
    if (child == 0) {
        begin(own.device_bytes + own.slack_bytes);
        trace_judge(&own, steps, is_by_step);
        _exit(0);
    }
    int code = await(child);
    if (code != 0)
        printf("seed=%lu verdict=%s answer=%d\n", head->seed,
               code == 128 + SIGALRM || code == 128 + SIGXCPU ? "hangs" : "dies", code);
}

static int each(const char *path, void (*visit)(const struct trace_head *, const struct step *)) {
    struct stat file;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &file) != 0 || file.st_size == 0)
        return 2;
    const char *at = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return 2;
    for (const char *end = at + file.st_size; at < end;) {
        const struct trace_head *head = (const void *)at;
        const struct step *steps = (const void *)(head + 1);
        visit(head, steps);
        at = (const char *)(steps + head->n_steps);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), argv[5]);
    is_by_step = strcmp(argv[argc > 1], "steps") == 0;
    if (argc == 3 && (is_by_step || strcmp(argv[1], "judge") == 0))
        return each(argv[2], judge);
    if (argc == 3 && strcmp(argv[1], "show") == 0)
        return each(argv[2], show);
    if (argc != 2 || strcmp(argv[1], "names") != 0) {
        fprintf(stderr, "usage: see the head of play.c\n");
        return 2;
    }
    for (unsigned i = 0; trace_generator(i); i++)
        puts(trace_generator(i));
    return 0;
}
