/* The program of many suites: runs those that are named, or all. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static struct suite *first;

void suite_enlist(struct suite *suite) {
    suite->next = first;
    first = suite;
}

/* Is a file the one of a suite's name?  "cache/cache" is tests/unit/memory/cache/cache.c. */
static int is_named(const char *file, const char *name) {
    size_t n_file = strlen(file), n_name = strlen(name);
    if (n_file < n_name + 3 || strcmp(file + n_file - 2, ".c") != 0)
        return 0;
    const char *base = file + n_file - 2 - n_name;
    return base[-1] == '/' && strncmp(base, name, n_name) == 0;
}

/* In a process of its own: a suite may set the environment, and finds nothing of another's. */
static int run_apart(const struct suite *suite) {
    int status = EXIT_FAILURE;
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        exit(suite->run());
    return child < 0 || waitpid(child, &status, 0) != child ? EXIT_FAILURE : status;
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
    for (int i = 1; i < argc; i++) {
        const struct suite *suite = find(argv[i]);
        n_failed += !suite || run_apart(suite) != 0;
    }
    for (const struct suite *suite = first; argc < 2 && suite; suite = suite->next)
        n_failed += run_apart(suite) != 0;
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
