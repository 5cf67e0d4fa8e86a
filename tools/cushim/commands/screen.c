#include "tools/cushim/commands/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/output.h"

static struct termios before;
static bool is_begun;
static sigset_t blocked;                       /* blocked except while we wait */
static volatile sig_atomic_t ended;            /* the signal that ended it */
static volatile sig_atomic_t resized, stopped; /* since the last look */

static void note(int number) {
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        stopped = 1;
    else
        ended = number;
}

bool screen_is_there(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && terminal && *terminal &&
           strcmp(terminal, "dumb") != 0;
}

/* ---- the state of the terminal ---- */

static void say(const char *text) {
    cushim_output_write(STDOUT_FILENO, text, strlen(text));
}

static bool take_terminal(void) {
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C and Ctrl-Z stay signals */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0)
        return false;
    say("\033[?1049h\033[?25l"); /* the other screen, without a cursor */
    return true;
}

static void give_terminal_back(void) {
    say("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

bool screen_begin(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
    struct sigaction action = {.sa_handler = note};
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&blocked, numbers[i]);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    is_begun = take_terminal();
    return is_begun;
}

void screen_end(void) {
    if (is_begun)
        give_terminal_back();
    is_begun = false;
}

int screen_signal(void) {
    return ended;
}

/* Stop, as Ctrl-Z asks for, and continue when the user comes back. */
static void stop(void) {
    sigset_t only;
    stopped = 0;
    give_terminal_back();
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &only, NULL); /* the process stops here */
    sigprocmask(SIG_BLOCK, &only, NULL);
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = note}, NULL);
    take_terminal();
}

/* ---- keys ---- */

static struct {
    unsigned char text[64];
    size_t n, at;
} typed; /* keys that were read and not yet taken */

/* Returns false if no more keys can come. */
static bool read_keys(void) {
    ssize_t n = read(STDIN_FILENO, typed.text, sizeof typed.text);
    typed.at = 0;
    typed.n = n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static int take_key(void) {
    const unsigned char *text = typed.text + typed.at;
    size_t n = typed.n - typed.at;
    if (n >= 3 && text[0] == 033 && (text[1] == '[' || text[1] == 'O')) {
        typed.at += 3;
        return text[2] == 'A' ? SCREEN_UP : text[2] == 'B' ? SCREEN_DOWN : SCREEN_NOTHING;
    }
    typed.at++;
    return text[0];
}

int screen_wait(int milliseconds) {
    struct timespec patience = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t none;
    if (typed.at < typed.n)
        return take_key();
    sigemptyset(&none);
    int n = ppoll(&keys, 1, &patience, &none);
    if (ended)
        return SCREEN_OVER;
    if (stopped) {
        stop();
        return SCREEN_RESIZED;
    }
    if (resized) {
        resized = 0;
        return SCREEN_RESIZED;
    }
    if (n <= 0)
        return SCREEN_NOTHING;
    if (!(keys.revents & POLLIN) || !read_keys())
        return SCREEN_OVER;
    return typed.n ? take_key() : SCREEN_NOTHING;
}

/* ---- pictures ---- */

size_t screen_cut(const char *text, int columns) {
    size_t n = 0;
    while (text[n]) {
        bool begins = ((unsigned char)text[n] & 0xc0) != 0x80;
        if (begins && columns-- <= 0)
            break;
        n++;
    }
    return n;
}

void screen_draw(struct screen_picture *picture) {
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *picture = (struct screen_picture){.out = {.fd = STDOUT_FILENO},
                                       .columns = size.ws_col ? size.ws_col : 80,
                                       .rows = size.ws_row ? size.ws_row : 24};
    cushim_write(&picture->out, "\033[H");
}

void screen_line(struct screen_picture *picture, const char *text, bool is_marked) {
    if (picture->n_lines >= picture->rows)
        return;
    cushim_write(&picture->out, "%s%s", picture->n_lines++ ? "\r\n" : "",
                 is_marked ? "\033[7m" : "");
    cushim_write_bytes(&picture->out, text, screen_cut(text, picture->columns));
    cushim_write(&picture->out, "%s\033[K", is_marked ? "\033[0m" : "");
}

void screen_show(struct screen_picture *picture) {
    cushim_write(&picture->out, "\033[J");
    cushim_writer_flush(&picture->out);
}
