#include "base/cut_file.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* A recording has one for each thread, a live page one for each thread's cache. */
enum { MOST_MAPPINGS = 768 };

/* No lock, because the handler reads them.  A thread that forgets a mapping knows that no other
 * thread uses it. */
static struct mapping {
    _Atomic uintptr_t start; /* 0: the row is free */
    atomic_size_t n_bytes;   /* set last and cleared first */
    _Atomic(atomic_bool *) is_cut;
} mappings[MOST_MAPPINGS];

static atomic_size_t page_bytes;
static atomic_bool is_shared; /* one of them, now or before */

static bool replace_page(uintptr_t address) {
    size_t n = atomic_load(&page_bytes);
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        struct mapping *mapping = &mappings[i];
        if (address - atomic_load(&mapping->start) >= atomic_load(&mapping->n_bytes))
            continue;
        atomic_store(atomic_load(&mapping->is_cut), true);
        void *page = (void *)(address / n * n);
        return mmap(page, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == page;
    }
    return false;
}

/* A fault repeats after the return; a signal that somebody sent does not. */
static void take_default(const siginfo_t *info) {
    sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0 || info->si_code == BUS_MCEERR_AO)
        raise(SIGBUS);
}

static void survive(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    int saved_errno = errno;
    if (info->si_code <= 0 || !replace_page((uintptr_t)info->si_addr))
        take_default(info);
    errno = saved_errno;
}

static bool is_default(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
}

static bool is_ours(const struct sigaction *action) {
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == survive;
}

static void install(void) {
    struct sigaction now;
    if ((geteuid() != 0 && !atomic_load(&is_shared)) || sigaction(SIGBUS, NULL, &now) != 0 ||
        !is_default(&now))
        return;
    atomic_store(&page_bytes, (size_t)sysconf(_SC_PAGESIZE));
    now = (struct sigaction){.sa_sigaction = survive, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGBUS, &now, NULL);
}

static void uninstall(void) {
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && is_ours(&now))
        sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

void cushim_cut_file_watch(const void *start, size_t n_bytes, atomic_bool *is_cut) {
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&mappings[i].start, &none, (uintptr_t)start))
            continue;
        atomic_store(&mappings[i].is_cut, is_cut);
        atomic_store(&mappings[i].n_bytes, n_bytes);
        install();
        return;
    }
}

void cushim_cut_file_watch_shared(const void *start, size_t n_bytes, atomic_bool *is_cut) {
    atomic_store(&is_shared, true);
    cushim_cut_file_watch(start, n_bytes, is_cut);
}

void cushim_cut_file_forget(const void *start) {
    bool is_any_left = false, is_known = false;
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        uintptr_t at = atomic_load(&mappings[i].start);
        if (at != (uintptr_t)start) {
            is_any_left |= at != 0;
            continue;
        }
        atomic_store(&mappings[i].n_bytes, 0);
        atomic_store(&mappings[i].start, 0);
        is_known = true;
    }
    if (is_known && !is_any_left)
        uninstall();
}
