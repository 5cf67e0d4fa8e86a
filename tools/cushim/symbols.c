#include "tools/cushim/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/utf8.h"

extern char **environ;

enum { PATIENCE_MS = 10000 };

/* A child, so that what is wrong in a file harms nobody else; not one that our preload is in. */
static pid_t start(const char *file, const uint64_t addresses[], size_t n, int output) {
    char texts[SYMBOLS_AT_ONCE][24];
    char *words[5 + SYMBOLS_AT_ONCE + 1] = {"addr2line", "-C", "-f", "-e", (char *)file};
    static char *const plain[] = {"LC_ALL=C", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof texts[i], "0x%" PRIx64, addresses[i]);
        words[5 + i] = texts[i];
    }
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawnp(&child, words[0], &actions, NULL, words, plain) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* What it says, with a 0 behind it; what it says too late is left. */
static void read_all(int input, char *text, size_t n_bytes) {
    struct pollfd ready = {.fd = input, .events = POLLIN};
    size_t n = 0;
    while (n < n_bytes - 1 && poll(&ready, 1, PATIENCE_MS) > 0) {
        ssize_t n_read = read(input, text + n, n_bytes - 1 - n);
        if (n_read < 0 && errno == EINTR)
            continue;
        if (n_read <= 0)
            break;
        n += (size_t)n_read;
    }
    text[n] = 0;
}

static bool ask(const char *file, const uint64_t addresses[], size_t n_addresses, char *text,
                size_t n_bytes) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return false;
    pid_t child = start(file, addresses, n_addresses, pipes[1]);
    close(pipes[1]);
    if (child > 0) {
        read_all(pipes[0], text, n_bytes);
        kill(child, SIGKILL); /* it has said all, or is stuck */
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    close(pipes[0]);
    return child > 0;
}

static bool is_file(const char *path) {
    struct stat status;
    return *path == '/' && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* "/folder/train.c:88 (discriminator 2)" without what stands around; "" where it has no line. */
static const char *line_of(char *place) {
    if (*place == '?' || strstr(place, ":?") || strstr(place, ":0"))
        return "";
    char *end = strchr(place, ' ');
    if (end)
        *end = 0;
    const char *slash = strrchr(place, '/');
    return slash ? slash + 1 : place;
}

void symbols_find(const char *file, const uint64_t addresses[], size_t n_addresses,
                  void (*tell)(size_t i, const char *function, const char *line, void *context),
                  void *context) {
    enum { TEXT_BYTES = 1 << 20 };
    char *text = malloc(TEXT_BYTES), *rest = NULL;
    if (text && is_file(file) && ask(file, addresses, n_addresses, text, TEXT_BYTES)) {
        char *name = strtok_r(text, "\n", &rest);
        for (size_t i = 0; name && i < n_addresses; i++) {
            char *place = strtok_r(NULL, "\n", &rest);
            if (!place)
                break;
            tell(i, *name == '?' ? "" : name, line_of(place), context);
            name = strtok_r(NULL, "\n", &rest);
        }
    }
    free(text);
}

struct answer {
    char *function, *line;
};

static void take(size_t i, const char *function, const char *line, void *context) {
    const struct answer *answer = context;
    (void)i;
    if (*line) {
        snprintf(answer->function, CUSHIM_REPORT_LINE_BYTES, "%s", *function ? function : "??");
        snprintf(answer->line, CUSHIM_REPORT_LINE_BYTES, "%s", line);
        cushim_utf8_clean(answer->function);
        cushim_utf8_clean(answer->line);
    }
}

bool symbols_find_line(const struct cushim_page_frame *frame,
                       char function[CUSHIM_REPORT_LINE_BYTES],
                       char line[CUSHIM_REPORT_LINE_BYTES]) {
    struct answer answer = {function, line};
    *line = 0;
    if (!frame->offset)
        return false;
    /* the return address lies behind the call */
    symbols_find(frame->file, &(uint64_t){frame->offset - 1}, 1, take, &answer);
    return *line != 0;
}
