/*
 * A preload ahead of ours that replaces functions of the C library.  It ends the process with a
 * message if ours calls it after its own end, where libfaketime crashes, or calls a cancellation
 * point while the thread may be cancelled.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_over;
static _Atomic int n_points; /* cancellation points that cushim called while cancellation was off */

static int is_ours(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "cushim-preload");
}

static void end_with(const char *name, const char *text) {
    syscall(SYS_write, STDERR_FILENO, name, strlen(name));
    syscall(SYS_write, STDERR_FILENO, text, strlen(text));
    syscall(SYS_exit_group, 99);
}

static void look(const char *name, const void *caller, int is_cancellation_point) {
    int state;
    if (!is_ours(caller))
        return;
    if (is_over)
        end_with(name, " was called behind the end of a preload ahead\n");
    if (!is_cancellation_point)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_setcancelstate(state, NULL);
    if (state == PTHREAD_CANCEL_ENABLE)
        end_with(name, " was called where a cancellation would act\n");
    n_points++;
}

#define STANDS(is_point, result, name, parameters, arguments)                                      \
    result name parameters {                                                                       \
        static result(*next) parameters;                                                           \
        look(#name, __builtin_return_address(0), is_point);                                        \
        if (!next)                                                                                 \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return next arguments;                                                                     \
    }

#pragma GCC visibility push(default)

/* ---- cancellation points ---- */

/* The mode is passed on whether there is one or not. */
#define OPENS(name, first, pass)                                                                   \
    int name(first const char *path, int flags, ...) {                                             \
        static int (*next)(first const char *, int, mode_t);                                       \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                  \
        va_end(more);                                                                              \
        look(#name, __builtin_return_address(0), 1);                                               \
        if (!next)                                                                                 \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return next(pass path, flags, mode);                                                       \
    }
#define FOLDER int folder,
#define PASS   folder,
OPENS(open64, , )
OPENS(openat64, FOLDER, PASS)
STANDS(1, int, close, (int file), (file))
STANDS(1, ssize_t, read, (int file, void *bytes, size_t n), (file, bytes, n))
STANDS(1, ssize_t, write, (int file, const void *bytes, size_t n), (file, bytes, n))
STANDS(1, ssize_t, pread64, (int file, void *bytes, size_t n, off64_t at), (file, bytes, n, at))
STANDS(1, ssize_t, pwrite64, (int file, const void *bytes, size_t n, off64_t at),
       (file, bytes, n, at))
STANDS(1, int, fallocate64, (int file, int mode, off64_t at, off64_t n), (file, mode, at, n))
STANDS(1, FILE *, fopen64, (const char *path, const char *mode), (path, mode))
STANDS(1, char *, fgets, (char *text, int n, FILE *file), (text, n, file))
STANDS(1, size_t, fread, (void *to, size_t size, size_t n, FILE *file), (to, size, n, file))
STANDS(1, int, fclose, (FILE * file), (file))
STANDS(1, int, mkostemp64, (char *name, int flags), (name, flags))
STANDS(1, int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *time),
       (set, info, time))

/* ---- what else is called at the end ---- */

STANDS(0, int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))
STANDS(0, int, rename, (const char *from, const char *to), (from, to))
STANDS(0, int, unlink, (const char *path), (path))
STANDS(0, int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
STANDS(0, int, munmap, (void *memory, size_t n), (memory, n))
STANDS(0, char *, secure_getenv, (const char *name), (name))
STANDS(0, ssize_t, readlink, (const char *path, char *text, size_t n), (path, text, n))
STANDS(0, pid_t, getpid, (void), ())
STANDS(0, int, fstat64, (int file, struct stat64 *status), (file, status))
STANDS(0, int, lstat64, (const char *path, struct stat64 *status), (path, status))
STANDS(0, int, faccessat, (int folder, const char *path, int mode, int flags),
       (folder, path, mode, flags))

#pragma GCC visibility pop

__attribute__((destructor)) static void end(void) {
    char text[64];
    int n = snprintf(text, sizeof text, "ahead: %d points\n", n_points);
    syscall(SYS_write, STDERR_FILENO, text, (size_t)n);
    is_over = 1;
}
