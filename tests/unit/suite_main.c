/* The program of many suites: it runs those that are named, or all.  Their TAP outputs are joined
 * into one. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static struct suite *first;
static bool is_tap;
static int n_told; /* verdicts so far */

void suite_enlist(struct suite *suite) {
    suite->next = first;
    first = suite;
}

/* Whether a file has the suite of this name: "cache/cache" is tests/unit/memory/cache/cache.c. */
static int is_named(const char *file, const char *name) {
    size_t n_file = strlen(file), n_name = strlen(name);
    if (n_file < n_name + 3 || strcmp(file + n_file - 2, ".c") != 0)
        return 0;
    const char *base = file + n_file - 2 - n_name;
    return base[-1] == '/' && strncmp(base, name, n_name) == 0;
}

/* Prints the output of a suite's process with its verdicts renumbered. Returns whether the suite
 * came to its end. */
static bool pass_on(FILE *from) {
    char *line = NULL;
    size_t n_room = 0;
    int n_here = 0, n_planned = -1;
    while (getline(&line, &n_room, from) > 0) {
        bool is_failure = strncmp(line, "not ok ", 7) == 0;
        const char *rest = is_failure ? line + 7 : line + 3;
        if (is_failure || strncmp(line, "ok ", 3) == 0) {
            n_here++;
            printf("%s %d%s", is_failure ? "not ok" : "ok", ++n_told,
                   rest + strspn(rest, "0123456789"));
        } else if (sscanf(line, "1..%d", &n_planned) != 1) {
            fputs(line, stdout);
        }
    }
    free(line);
    fclose(from);
    return n_here == n_planned;
}

/* Each suite has its own process, because a suite may change the environment. */
static bool run_apart(const struct suite *suite) {
    int status = EXIT_FAILURE, ends[2];
    fflush(NULL);
    if (is_tap && pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (!child) {
        if (is_tap && dup2(ends[1], STDOUT_FILENO) < 0)
            _exit(EXIT_FAILURE);
        if (is_tap) {
            close(ends[0]);
            close(ends[1]);
        }
        exit(suite->run());
    }
    if (is_tap)
        close(ends[1]);
    bool is_whole = !is_tap || pass_on(fdopen(ends[0], "r"));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && is_whole;
}

static const struct suite *find(const char *name) {
    const struct suite *suite = first;
    while (suite && !is_named(suite->file, name))
        suite = suite->next;
    if (!suite)
        fprintf(stderr, "no suite %s\n", name);
    return suite;
}

int main(int argc, char **argv) {
    int n_failed = 0;
    if (argc == 2) {
        const struct suite *suite = find(argv[1]);
        return suite ? suite->run() : EXIT_FAILURE;
    }
    const char *log = getenv("CK_TAP_LOG_FILE_NAME");
    is_tap = log && strcmp(log, "/dev/stdout") == 0;
    for (int i = 1; i < argc; i++) {
        const struct suite *suite = find(argv[i]);
        n_failed += !suite || !run_apart(suite);
    }
    for (const struct suite *suite = first; argc < 2 && suite; suite = suite->next)
        n_failed += !run_apart(suite);
    if (is_tap)
        printf("1..%d\n", n_told);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
