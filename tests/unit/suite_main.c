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

/* Is a file the one of a suite's name?  "cache" is tests/unit/memory/cache/cache.c. */
static int is_named(const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    const char *base = slash ? slash + 1 : file;
    size_t length = strlen(name);
    return strncmp(base, name, length) == 0 && strcmp(base + length, ".c") == 0;
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
