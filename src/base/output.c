#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"

enum { N_STANDARD = STDERR_FILENO + 1 };

/* cushim_output_note writes it once; a descriptor that was closed then is no file for good. */
static struct {
    bool is_open;
    dev_t device;
    ino_t number;
} noted[N_STANDARD];
static atomic_bool is_noted;

void cushim_output_note(void) {
    for (int fd = STDOUT_FILENO; fd < N_STANDARD; fd++) {
        struct stat status;
        noted[fd].is_open = fstat(fd, &status) == 0;
        if (noted[fd].is_open) {
            noted[fd].device = status.st_dev;
            noted[fd].number = status.st_ino;
        }
    }
    atomic_store_explicit(&is_noted, true, memory_order_release);
}

static bool is_another_file(int fd) {
    struct stat status;
    if (fd >= N_STANDARD || !atomic_load_explicit(&is_noted, memory_order_acquire))
        return false;
    return !noted[fd].is_open || fstat(fd, &status) != 0 || status.st_dev != noted[fd].device ||
           status.st_ino != noted[fd].number;
}

int cushim_output_aside(int fd) {
    if (fd < 0 || fd >= N_STANDARD)
        return fd;
    /* by its number, because some C libraries lack glibc's name for it */
    int saved_errno = errno, aside = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, N_STANDARD);
    if (aside >= 0)
        close(fd);
    errno = saved_errno;
    return aside >= 0 ? aside : fd;
}

static int write_all(int fd, const char *bytes, size_t n_bytes) {
    while (n_bytes) {
        ssize_t n = write(fd, bytes, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

int cushim_output_write(int fd, const void *bytes, size_t n_bytes) {
    const struct timespec at_once = {0, 0};
    int saved_errno = errno, error = EBADF, cancel = cushim_cancel_hold();
    sigset_t ours, pending, old;
    if (is_another_file(fd))
        goto done;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ours, &old);
    error = write_all(fd, bytes, n_bytes);
    /* a signal that our write raised is taken back; one that was pending before stays */
    int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (raised && !sigismember(&pending, raised)) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, raised);
        sigtimedwait(&only, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
done:
    cushim_cancel_let(cancel);
    errno = saved_errno;
    return error;
}
