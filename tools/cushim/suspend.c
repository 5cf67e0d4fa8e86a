#include "tools/cushim/suspend.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/writer.h"
#include "cuda/symbol.h"
#include "cuda/types.h"
#include "tools/cushim/devices.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

/* ---- the driver ---- */

static struct {
    CUresult (*init)(unsigned flags);
    CUresult (*error_name)(CUresult error, const char **name);
    CUresult (*get_state)(int process, CUprocessState *state);
    CUresult (*lock)(int process, CUcheckpointLockArgs *args);
    CUresult (*checkpoint)(int process, CUcheckpointCheckpointArgs *args);
    CUresult (*restore)(int process, CUcheckpointRestoreArgs *args);
    CUresult (*unlock)(int process, CUcheckpointUnlockArgs *args);
} driver;

static bool open_driver(void) {
    static const char *const names[] = {
        "cuInit",
        "cuGetErrorName",
        "cuCheckpointProcessGetState",
        "cuCheckpointProcessLock",
        "cuCheckpointProcessCheckpoint",
        "cuCheckpointProcessRestore",
        "cuCheckpointProcessUnlock",
    };
    void *symbols[sizeof names / sizeof *names];
    if (driver.init)
        return true;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return complain("no CUDA driver: %s", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(symbols[i] = dlsym(library, names[i])))
            return complain("the driver is too old: it has no %s; drivers from 570 on have it",
                            names[i]);
    }
    memcpy(&driver, symbols, sizeof symbols);
    driver.init(0); /* a restore needs it; what fails says so below */
    return true;
}

static const char *name_of(CUresult error) {
    const char *name = NULL;
    return driver.error_name(error, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

/* ---- the process ---- */

/* It may be a zombie. */
static bool has_ended(int64_t process) {
    struct suspended now;
    char state;
    return !suspended_look_up(process, &now, &state);
}

/* Print a line that begins with "process 4711 (app)". */
__attribute__((format(printf, 2, 3))) static bool tell(const struct suspended *of,
                                                       const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return complain("process %" PRId64 " (%s)%s", of->process, of->program, text);
}

/* What is known of a process from its live page. */
struct known {
    int64_t process;
    uint64_t held_bytes, managed_bytes;
    bool has_ipc, is_software;
};

static void note_known(const struct page *page, void *context) {
    struct known *known = context;
    const struct cushim_report *report = page->report;
    const struct cushim_page_head *head = &report->page.head;
    if (!page->is_alive || head->process != known->process ||
        head->namespace != cushim_page_namespace())
        return;
    known->is_software = cushim_mem_stats_read(&head->is_software);
    known->held_bytes += cushim_report_sum_device(report, -1, held_bytes);
    known->managed_bytes = cushim_report_sum(report, CUSHIM_KIND_MANAGED, held_bytes);
    known->has_ipc =
        cushim_page_calls_of(report->calls, CUSHIM_SYMBOL_cuIpcGetMemHandle) ||
        cushim_page_calls_of(report->calls, CUSHIM_SYMBOL_cuIpcOpenMemHandle) +
                cushim_page_calls_of(report->calls, CUSHIM_SYMBOL_cuIpcOpenMemHandle_v2) >
            cushim_page_calls_of(report->calls, CUSHIM_SYMBOL_cuIpcCloseMemHandle);
}

/* The checks that both directions have.  A line says what is wrong. */
static bool is_within_reach(int64_t process, struct suspended *out, CUprocessState *now) {
    struct known known = {.process = process};
    char state;
    if (!suspended_look_up(process, out, &state))
        return complain("no process %" PRId64, process);
    if (kill((pid_t)process, 0) != 0)
        return tell(out, ": not permitted, because it is another user's");
    if (state == 'T' || state == 't')
        return tell(out,
                    " is stopped, so the driver would wait for it; `kill -CONT %" PRId64
                    "` lets it go on",
                    process);
    if (!open_driver())
        return false;
    CUresult result = driver.get_state((int)process, now);
    if (result == CUDA_SUCCESS)
        return true;
    pages_each(note_known, &known);
    return tell(out, ": %s",
                has_ended(process)                     ? "it has ended"
                : result != CUDA_ERROR_NOT_INITIALIZED ? name_of(result)
                : known.is_software
                    ? "its device is in software; `cushim sim --shared=FILE` lets both see it"
                    : "it does not use CUDA");
}

/* ---- how much memory ---- */

/* What NVML says that the process has of each device. */
static void note_used(struct suspended *suspended) {
    struct device_process processes[DEVICES_MOST_PROCESSES];
    for (unsigned i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        unsigned n = devices_processes(i, processes);
        for (unsigned k = 0; k < n; k++)
            suspended->n_bytes[i] +=
                processes[k].process == suspended->process ? processes[k].n_bytes : 0;
    }
}

/* ---- suspend ---- */

/* The driver would refuse it, or not bring it back.  A line says why. */
static bool is_fit(struct suspended *note) {
    struct known known = {.process = note->process};
    pages_each(note_known, &known);
    note_used(note);
    uint64_t n_bytes = suspended_bytes(note), most = cushim_host_memory_bytes(note->process);
    n_bytes = n_bytes > known.held_bytes ? n_bytes : known.held_bytes;
    if (known.managed_bytes)
        return tell(note, " is not suspended: it holds managed memory, which the driver cannot "
                          "suspend");
    if (known.has_ipc)
        return tell(note, " is not suspended: IPC is in use, and the driver cannot suspend memory "
                          "of two processes");
    return n_bytes < most ||
           tell(note,
                " is not suspended: not enough host memory, because it has %s on GPUs and "
                "may take %s",
                CUSHIM_BYTES(n_bytes), CUSHIM_BYTES(most));
}

static const char *why_not_locked(CUresult result) {
    return result == CUDA_ERROR_NOT_READY       ? "its GPU work did not end within a minute"
           : result == CUDA_ERROR_ILLEGAL_STATE ? "something else suspends it"
                                                : name_of(result);
}

static const char *why_not_taken(CUresult result) {
    return result == CUDA_ERROR_NOT_SUPPORTED
               ? "the driver cannot suspend managed memory, or memory of two processes (IPC)"
           : result == CUDA_ERROR_OUT_OF_MEMORY ? "not enough host memory"
                                                : name_of(result);
}

/* Lock it and take its memory; NULL, or why that did not work.  Then it goes on. */
static const char *take(int process) {
    CUcheckpointLockArgs args = {.timeoutMs = 60000};
    CUresult result = driver.lock(process, &args);
    if (result != CUDA_SUCCESS)
        return why_not_locked(result);
    result = driver.checkpoint(process, NULL);
    if (result == CUDA_SUCCESS)
        return NULL;
    driver.unlock(process, NULL);
    return why_not_taken(result);
}

/* A restore that fails may never succeed again, so it is to have a little more than it needs, but
 * no more than there was. */
static uint64_t spare_beside(uint64_t n_bytes, uint64_t free_bytes) {
    const uint64_t most = 256 << 20;
    uint64_t spare = n_bytes / 16 < most ? n_bytes / 16 : most;
    return spare < free_bytes ? spare : free_bytes;
}

/* The note is held. */
static bool suspend(int held, int64_t process) {
    struct suspended note;
    CUprocessState state;
    uint64_t before[CUSHIM_MAX_DEVICES], after[CUSHIM_MAX_DEVICES], n_free = 0;
    if (!is_within_reach(process, &note, &state))
        return false;
    if (state != CU_PROCESS_STATE_RUNNING)
        return tell(&note, " is %s",
                    state == CU_PROCESS_STATE_CHECKPOINTED ? "suspended already"
                    : state == CU_PROCESS_STATE_LOCKED
                        ? "half suspended; `cushim resume` lets it go on"
                        : "damaged by an earlier checkpoint, the driver says");
    note.since_ns = cushim_clock_ns();
    if (!is_fit(&note))
        return false;
    suspended_write(held, &note);
    unsigned n_devices = devices_free(before);
    const char *why = take((int)process);
    if (why) {
        suspended_write(held, NULL);
        return tell(&note, " is not suspended: %s%s", why,
                    has_ended(process) ? "; it has ended" : "; it goes on");
    }
    uint64_t ns = cushim_clock_ns() - note.since_ns;
    devices_free(after);
    for (unsigned i = 0; i < n_devices; i++) {
        if (!note.n_bytes[i] && after[i] > before[i])
            note.n_bytes[i] = after[i] - before[i];
        n_free += note.n_bytes[i] ? after[i] : 0;
        note.spare_bytes[i] = spare_beside(note.n_bytes[i], before[i]);
    }
    note.is_whole = 1;
    suspended_write(held, &note);
    return !tell(&note, " is suspended: %s went to host memory in %s, and %s are free",
                 CUSHIM_BYTES(suspended_bytes(&note)), CUSHIM_TIME(ns), CUSHIM_BYTES(n_free));
}

/* ---- resume ---- */

/* Is there too little memory for it?  A line says which processes have it. */
static bool lacks_memory(const struct suspended *note) {
    struct device_process processes[DEVICES_MOST_PROCESSES];
    uint64_t free_bytes[CUSHIM_MAX_DEVICES];
    unsigned n_devices = devices_free(free_bytes);
    for (unsigned i = 0; i < n_devices; i++) {
        char who[512] = "", state;
        uint64_t needed = note->n_bytes[i] + note->spare_bytes[i];
        if (needed <= free_bytes[i])
            continue;
        unsigned n = devices_processes(i, processes);
        for (unsigned k = 0; k < n; k++) {
            struct suspended other;
            size_t at = strlen(who);
            if (!processes[k].n_bytes)
                continue;
            if (!suspended_look_up(processes[k].process, &other, &state))
                snprintf(other.program, sizeof other.program, "of another container");
            snprintf(who + at, sizeof who - at, "%s%u (%s) has %s", *who ? ", " : "",
                     processes[k].process, other.program, CUSHIM_BYTES(processes[k].n_bytes));
        }
        return !tell(note, " stays suspended: it needs %s of GPU %u, which has %s free; %s",
                     CUSHIM_BYTES(needed), i, CUSHIM_BYTES(free_bytes[i]),
                     *who ? who : "no process that NVML sees has more");
    }
    return false;
}

static bool resume(int held, int64_t process) {
    struct suspended now, note;
    CUprocessState state;
    CUresult result = CUDA_SUCCESS;
    if (!is_within_reach(process, &now, &state))
        return false;
    if (!suspended_find(process, &note))
        note = now;
    if (state != CU_PROCESS_STATE_LOCKED && state != CU_PROCESS_STATE_CHECKPOINTED) {
        suspended_write(held, NULL);
        return tell(&now, " is not suspended");
    }
    uint64_t start_ns = cushim_clock_ns();
    if (state == CU_PROCESS_STATE_CHECKPOINTED && lacks_memory(&note))
        return false;
    if (state == CU_PROCESS_STATE_CHECKPOINTED)
        result = driver.restore((int)process, NULL);
    result = result ? result : driver.unlock((int)process, NULL);
    if (result != CUDA_SUCCESS && has_ended(process))
        return tell(&now, " has ended");
    if (result != CUDA_SUCCESS)
        return tell(&now, " stays suspended: %s",
                    result == CUDA_ERROR_OUT_OF_MEMORY ? "the driver found too little GPU memory"
                                                       : name_of(result));
    suspended_write(held, NULL);
    if (state == CU_PROCESS_STATE_LOCKED)
        return !tell(&now, " goes on; its memory was on the GPU");
    return !tell(&now, " goes on: %s came back in %s", CUSHIM_BYTES(suspended_bytes(&note)),
                 CUSHIM_TIME(cushim_clock_ns() - start_ns));
}

static bool with_note(int64_t process, bool (*what)(int held, int64_t process)) {
    int held = suspended_hold(process);
    if (held < 0)
        return false;
    bool is_well = what(held, process);
    suspended_release(held, process);
    return is_well;
}

bool suspend_process(int64_t process) {
    return with_note(process, suspend);
}

bool resume_process(int64_t process) {
    return with_note(process, resume);
}
