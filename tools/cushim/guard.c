#include "tools/cushim/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cushim/suspend.h"
#include "tools/cushim/suspend_list.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

static struct {
    struct suspend_list list;
    pid_t process;  /* of the guard; 0: there is none */
    int life, word; /* its pipes: the program's number to it, and then our end; a word from it */
} guard;

static void resume_all(int n) {
    for (int i = 0; i < n; i++) {
        struct suspended suspended;
        if (suspended_find(guard.list.processes[i], &suspended))
            resume_process(guard.list.processes[i]);
    }
}

/* Wait for the end of a program whose parent, the command, was killed. */
static void wait_for_program(pid_t program) {
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, program, 0), .events = POLLIN};
    if (end.fd >= 0)
        TEMP_FAILURE_RETRY(poll(&end, 1, -1));
    while (end.fd < 0 && kill(program, 0) == 0)
        usleep(200000);
}

__attribute__((noreturn)) static void be_guard(int life, int word) {
    pid_t program = 0;
    int n = 0;
    bool is_well = true;
    setsid(); /* the terminal's signals are for the program */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    for (; n < guard.list.n && is_well; n += is_well)
        is_well = suspend_process(guard.list.processes[n]);
    if (is_well && write(word, "s", 1) == 1) {
        char rest;
        if (TEMP_FAILURE_RETRY(read(life, &program, sizeof program)) > 0)
            (void)!TEMP_FAILURE_RETRY(read(life, &rest, 1)); /* until the command has ended */
        if (program)                                         /* 0: it could not be started */
            wait_for_program(program);
    }
    resume_all(n);
    (void)!write(word, "r", 1);
    _exit(EXIT_WELL);
}

static bool take_words(const char *words) {
    char *copy = strdup(words), *rest = NULL;
    bool is_well = copy != NULL;
    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word && is_well;
         word = strtok_r(NULL, ",", &rest)) {
        if (strcmp(word, "idle") == 0)
            suspend_list_add_idle(&guard.list);
        else
            is_well = suspend_list_add(&guard.list, word);
    }
    free(copy);
    return is_well;
}

/* The next word of the guard; 0: it was killed. */
static char hear(void) {
    char word = 0;
    return TEMP_FAILURE_RETRY(read(guard.word, &word, 1)) == 1 ? word : 0;
}

/* If the guard could not say that all go on, they are resumed here. */
static void finish(char last_word) {
    waitpid(guard.process, NULL, 0);
    guard.process = 0;
    if (last_word != 'r')
        resume_all(guard.list.n);
}

bool guard_begin(const char *words) {
    int life[2], word[2];
    if (!take_words(words))
        return false;
    if (!guard.list.n)
        return !complain("no process is idle, so none is suspended");
    if (pipe2(life, O_CLOEXEC) != 0 || pipe2(word, O_CLOEXEC) != 0 || (guard.process = fork()) < 0)
        return complain("no process can watch: %s", strerror(errno));
    if (guard.process == 0) {
        close(life[1]);
        close(word[0]);
        be_guard(life[0], word[1]);
    }
    close(life[0]);
    close(word[1]);
    guard.life = life[1];
    guard.word = word[0];
    char first_word = hear();
    if (first_word == 's')
        return true;
    close(guard.life);
    finish(first_word); /* 'r': what others have suspended stays so */
    return false;
}

void guard_note(pid_t program) {
    if (guard.process)
        (void)!write(guard.life, &program, sizeof program);
}

void guard_end(void) {
    if (!guard.process)
        return;
    close(guard.life);
    finish(hear());
}
