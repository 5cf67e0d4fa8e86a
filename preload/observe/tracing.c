#include "preload/observe/tracing.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/backtrace.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/thread_end.h"
#include "memory/fence/fence.h"
#include "memory/stats.h"
#include "preload/resolve/resolve.h"
#include "preload/state/control.h"
#include "report/page.h"
#include "trace/modules.h"
#include "trace/writer.h"

enum { MOST_WRITERS = 512 };

static struct cushim_trace trace;
static struct cushim_tracing_wish wish;
atomic_uint cushim_tracing_now;
static unsigned n_recordings;

/* A thread has one at a time and hands it on when it ends. */
static struct slot {
    struct cushim_trace_writer writer;
    uint64_t thread;
    unsigned recording;           /* that it writes to */
    uint64_t now_ns;              /* of the event that it writes */
    struct cushim_mem_waits told; /* of the thread's */
    atomic_bool is_taken;
} slots[MOST_WRITERS];

static atomic_bool is_device_told[CUSHIM_MAX_DEVICES];

static _Thread_local struct slot *slot_of_thread __attribute__((tls_model("initial-exec")));

/* ---- the file ---- */

static void read_words(const char *file, char *text, size_t text_bytes) {
    FILE *words = fopen(file, "re");
    size_t n = words ? fread(text, 1, text_bytes - 1, words) : 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (!text[i])
            text[i] = ' ';
    }
    if (words)
        fclose(words);
}

static int open_file(const char *folder) {
    static struct cushim_trace_head head; /* too large for the stack of a foreign thread */
    char path[PATH_MAX];
    long ranks = cushim_path_ranks();
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    head = (struct cushim_trace_head){
        .process = (uint64_t)getpid(),
        .run = wish.run,
        .start_ns = cushim_clock_ns(),
        .start_wall_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec,
        .is_relaxed = wish.is_relaxed,
        .is_software = cushim_driver_is_software(), /* known in a child only; other processes learn
                                                     * it later */
        .product = CUSHIM_VERSION_TEXT,
        .next_rank = (uint64_t)(cushim_path_rank() + 1),
        .ranks = ranks > 0 ? (uint64_t)ranks : 0,
    };
    snprintf(head.program, sizeof head.program, "%s", program_invocation_short_name);
    gethostname(head.host, sizeof head.host - 1);
    read_words("/proc/self/cmdline", head.arguments, sizeof head.arguments);
    if (!getcwd(head.folder, sizeof head.folder))
        *head.folder = 0;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return errno;
    if (snprintf(path, sizeof path, "%s/%lu-%lu" CUSHIM_TRACE_ENDING, folder,
                 (unsigned long)head.process, (unsigned long)head.start_ns) >= (int)sizeof path)
        return ENAMETOOLONG;
    return cushim_trace_open(&trace, path, &head, wish.max_bytes);
}

/* The caller has the slot, or nobody has. */
static void renew(struct slot *slot) {
    cushim_trace_writer_renew(&slot->writer);
    slot->recording = cushim_tracing_number();
    slot->told = cushim_mem_waits_of_thread;
}

static void end_thread(void *of_thread) {
    struct slot *slot = of_thread;
    slot_of_thread = NULL;
    if (!cushim_tracing_is_on())
        renew(slot);
    atomic_store_explicit(&slot->is_taken, false, memory_order_release);
}

CUSHIM_THREAD_END(watch_thread, end_thread)

static int begin(void) {
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++)
        atomic_store(&is_device_told[i], false);
    cushim_trace_modules_forget();
    int error = *wish.folder == '/' ? open_file(wish.folder) : EINVAL;
    if (!error)
        atomic_store(&cushim_tracing_now, ++n_recordings);
    else
        log_error("trace", "no recording in %s: %s", wish.folder, strerror(error));
    return error;
}

int cushim_tracing_begin(const struct cushim_tracing_wish *wished) {
    wish = *wished;
    return begin();
}

void cushim_tracing_note_driver(void) {
    if (cushim_tracing_is_on())
        atomic_store(&trace.head->is_software, cushim_driver_is_software());
}

void cushim_tracing_in_child(bool is_fresh) {
    if (!cushim_tracing_is_on())
        return;
    cushim_trace_leave_to_parent(&trace, slot_of_thread ? &slot_of_thread->writer : NULL);
    slot_of_thread = NULL;
    memset(slots, 0, sizeof slots);
    atomic_store(&cushim_tracing_now, 0);
    if (is_fresh && !wish.is_late)
        begin();
}

void cushim_tracing_end(void) {
    if (cushim_tracing_is_on() && trace.head->process == (uint64_t)getpid())
        cushim_trace_close(&trace);
}

void cushim_tracing_stop(void) {
    atomic_uint_fast64_t *state = &trace.head->state;
    uint_fast64_t ended = CUSHIM_TRACE_ENDED;
    atomic_store(&cushim_tracing_now, 0);
    cushim_trace_close(&trace);
    atomic_compare_exchange_strong(state, &ended, CUSHIM_TRACE_STOPPED);
    for (unsigned i = 0; i < MOST_WRITERS; i++) {
        bool is_own = &slots[i] == slot_of_thread && !slots[i].writer.is_busy;
        if (!is_own && atomic_exchange_explicit(&slots[i].is_taken, true, memory_order_acquire))
            continue; /* its thread renews it */
        renew(&slots[i]);
        if (!is_own)
            atomic_store_explicit(&slots[i].is_taken, false, memory_order_release);
    }
}

/* ---- events ---- */

static struct slot *take_slot(void) {
    for (unsigned i = 0; i < MOST_WRITERS; i++) {
        struct slot *slot = &slots[i];
        if (atomic_load_explicit(&slot->is_taken, memory_order_relaxed) ||
            atomic_exchange_explicit(&slot->is_taken, true, memory_order_acquire))
            continue;
        if (!watch_thread(slot)) {
            atomic_store_explicit(&slot->is_taken, false, memory_order_release);
            return NULL;
        }
        slot->writer.number = i;
        slot->thread = (uint64_t)syscall(SYS_gettid);
        slot->told = cushim_mem_waits_of_thread;
        slot_of_thread = slot;
        return slot;
    }
    return NULL;
}

/* Begin an event: the thread's slot, after the place of the event was written; NULL: the event is
 * lost, which is counted. */
static struct slot *at(uint64_t now_ns, const struct cushim_mem_stats *stats, const void *heap) {
    unsigned number = cushim_tracing_number();
    if (!number || now_ns < trace.head->start_ns || (wish.is_late && cushim_control_is_over()))
        return NULL;
    struct slot *slot = slot_of_thread ? slot_of_thread : take_slot();
    if (slot && slot->recording != number && !slot->writer.is_busy)
        renew(slot);
    if (!slot) {
        atomic_fetch_add_explicit(&trace.head->n_lost, 1, memory_order_relaxed);
        return NULL;
    }
    ptrdiff_t n = stats - wish.stats;
    slot->now_ns = now_ns;
    cushim_trace_at(&trace, &slot->writer,
                    &(struct cushim_trace_event){.code = CUSHIM_TRACE_PLACE,
                                                 .time_ns = now_ns,
                                                 .device = (unsigned)(n / CUSHIM_N_KINDS),
                                                 .kind = (unsigned)(n % CUSHIM_N_KINDS),
                                                 .pool = (uint64_t)(uintptr_t)heap,
                                                 .thread = slot->thread});
    return slot;
}

static struct slot *at_once(const struct cushim_mem_stats *stats, const void *heap) {
    return at(cushim_clock_ns(), stats, heap);
}

/* 0: there is none. */
static uint64_t put_stack(struct slot *slot, const struct cushim_backtrace *stack) {
    uint64_t frames[CUSHIM_BACKTRACE_FRAMES];
    memcpy(frames, stack->frames, (size_t)stack->n_frames * sizeof *frames);
    return cushim_trace_stack(&trace, &slot->writer, frames, (unsigned)stack->n_frames,
                              slot->now_ns);
}

static uint64_t stack_of(struct slot *slot) {
    struct cushim_backtrace stack;
    if (!wish.has_stacks)
        return 0;
    cushim_backtrace_take(&stack);
    return put_stack(slot, &stack);
}

static void put(struct slot *slot, struct cushim_trace_event *event) {
    if (!slot)
        return;
    event->time_ns = slot->now_ns;
    cushim_trace_put(&trace, &slot->writer, event);
}

/* Write the event that has begun, unless it is lost. */
#define PUT(slot, ...) put(slot, &(struct cushim_trace_event){__VA_ARGS__})

/* Write how long the thread waited since the last such event. */
static void put_waits(struct slot *slot, unsigned flags) {
    const struct cushim_mem_waits *now = &cushim_mem_waits_of_thread;
    if (!slot || now->n == slot->told.n)
        return;
    PUT(slot, .code = CUSHIM_TRACE_WAIT, .flags = flags, .n_waits = now->n - slot->told.n,
        .number = now->ns - slot->told.ns);
    slot->told = *now;
}

void cushim_tracing_alloc(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, bool is_hit) {
    struct slot *slot = at_once(stats, heap);
    if (!slot)
        return;
    unsigned flags = is_hit ? CUSHIM_TRACE_NO_CALL : heap ? 0 : CUSHIM_TRACE_NATIVELY;
    PUT(slot, .code = CUSHIM_TRACE_ALLOC, .flags = flags, .address = address, .n_bytes = n_bytes,
        .stack = stack_of(slot));
    put_waits(slot, CUSHIM_TRACE_IN_REQUEST);
}

void cushim_tracing_free(const struct cushim_mem_stats *stats, const void *heap, uint64_t address) {
    struct slot *slot = at_once(stats, heap);
    put_waits(slot, CUSHIM_TRACE_IN_REQUEST); /* of a call that wrote no other event */
    PUT(slot, .code = CUSHIM_TRACE_FREE, .address = address);
}

void cushim_tracing_freed(const struct cushim_mem_stats *stats, const void *heap) {
    put_waits(at_once(stats, heap), 0);
}

void cushim_tracing_lives(const struct cushim_mem_stats *stats, const void *heap, uint64_t address,
                          size_t n_bytes, const struct cushim_backtrace *stack, uint64_t now_ns) {
    struct slot *slot = at(now_ns, stats, heap);
    if (!slot)
        return;
    put_waits(slot, 0);
    PUT(slot, .code = CUSHIM_TRACE_ALLOC,
        .flags = CUSHIM_TRACE_RESTORED | (heap ? 0 : CUSHIM_TRACE_NATIVELY), .address = address,
        .n_bytes = n_bytes, .stack = stack && wish.has_stacks ? put_stack(slot, stack) : 0);
}

void cushim_tracing_refused(const struct cushim_mem_stats *stats, const void *heap,
                            size_t n_bytes) {
    struct slot *slot = at_once(stats, heap);
    if (!slot)
        return;
    PUT(slot, .code = CUSHIM_TRACE_REFUSE, .n_bytes = n_bytes, .stack = stack_of(slot));
    put_waits(slot, CUSHIM_TRACE_IN_REQUEST);
}

void cushim_tracing_device(const struct cushim_mem_stats *stats, size_t n_bytes, const char *name) {
    atomic_bool *is_told = &is_device_told[(stats - wish.stats) / CUSHIM_N_KINDS];
    struct slot *slot = n_bytes && !atomic_load(is_told) ? at_once(stats, NULL) : NULL;
    if (slot && !atomic_exchange(is_told, true))
        PUT(slot, .code = CUSHIM_TRACE_DEVICE, .n_bytes = n_bytes, .text = name,
            .text_bytes = strlen(name));
}

void cushim_tracing_segment(const struct cushim_mem_stats *stats, const void *heap, uint64_t base,
                            size_t n_bytes, bool is_there) {
    PUT(at_once(stats, heap), .code = CUSHIM_TRACE_SEGMENT,
        .flags = is_there ? 0 : CUSHIM_TRACE_GIVEN_BACK, .address = base, .n_bytes = n_bytes);
}

void cushim_tracing_mark(const char *name) {
    PUT(at_once(wish.stats, NULL), .code = CUSHIM_TRACE_MARK, .text = name,
        .text_bytes = strlen(name));
}

void cushim_tracing_gone(const struct cushim_mem_stats *stats, const void *heap) {
    PUT(at_once(stats, heap), .code = CUSHIM_TRACE_GONE, .number = (uint64_t)(uintptr_t)heap);
}

void cushim_tracing_copy(const struct cushim_mem_stats *stats,
                         const struct cushim_traced_copy *copy) {
    const char *text = copy->left_for ? copy->left_for : "";
    PUT(at_once(stats, NULL), .code = CUSHIM_TRACE_COPY,
        .flags = (copy->is_to_host ? CUSHIM_TRACE_TO_HOST : 0) |
                 (copy->is_by_driver ? CUSHIM_TRACE_NATIVELY : 0),
        .n_bytes = copy->n_bytes, .number = copy->ns, .text = text, .text_bytes = strlen(text));
}
