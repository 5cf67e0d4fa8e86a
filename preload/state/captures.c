#include "preload/state/captures.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/lock.h"
#include "base/thread_end.h"
#include "cuda/current_context.h"
#include "cuda/table.h"
#include "cushim/preload.h"
#include "memory/graph_resources.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

enum { CAPTURE_SERVE = 1 }; /* of the option */

struct entry {
    struct cushim_capture begun;
    const struct cushim_thread *thread;     /* the thread that began it; NULL: it ended meanwhile */
    struct cushim_mem_graph_resources hold; /* what that thread freed since */
};

/* The lock also guards the number of open or beginning captures in cushim_guard.  It is held over
 * the driver's begin. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;                     /* [n_room], never freed */
static struct cushim_mem_graph_resources **holds; /* [n_room], for cushim_capture_free */
static unsigned n_entries, n_room;

static bool is_entry_of(const struct entry *entry, CUstream stream) {
    return entry->begun.stream == stream &&
           (stream != CU_STREAM_PER_THREAD || entry->thread == &cushim_thread);
}

/* Without a graph nothing runs what was captured, so its blocks are freed like any others. */
static void remove_at(unsigned i) {
    cushim_mem_graph_resources_let_go(entries[i].hold.first);
    entries[i] = entries[--n_entries];
    atomic_fetch_sub(&cushim_guard.now, CUSHIM_GUARD_CAPTURE);
}

/* The place of a stream's entry, or n_entries. */
static unsigned place_of(CUstream stream) {
    unsigned i = 0;
    while (i < n_entries && !is_entry_of(&entries[i], stream))
        i++;
    return i;
}

static void remove_stream(CUstream stream) {
    unsigned i = place_of(stream);
    if (i < n_entries)
        remove_at(i);
}

bool cushim_capture_is_captured(struct cushim_cuda *cuda, CUstream stream) {
    CUstreamCaptureStatus status;
    return cushim_capture_is_open() && cuda->cuStreamIsCapturing &&
           cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool cushim_capture_is_own(struct cushim_cuda *cuda) {
    bool is_own = false;
    if (cushim_process_options.capture == CAPTURE_SERVE)
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_entries && !is_own; i++)
        is_own = entries[i].thread == &cushim_thread &&
                 entries[i].begun.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_unlock(&lock);
    if (!is_own || !cuda->cuThreadExchangeStreamCaptureMode)
        return is_own;
    /* a thread that exchanged its own mode for RELAXED may do everything, so ask for the mode and
     * put it back
     */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->cuThreadExchangeStreamCaptureMode(&mode);
    is_own = mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->cuThreadExchangeStreamCaptureMode(&mode);
    return is_own;
}

/*
 * Recorders and captures that begin.  A recorder counts itself in, then looks whether a capture is
 * open; a begin opens the capture, then waits until nobody is counted.  Both are sequentially
 * consistent, so one of the two sees the other.  A recorder that sees a capture leaves, so the
 * begin waits only for recorders that were there before it (tests/model/capture.pml).  Nobody wakes
 * it, because begins are rare, and a wake would cost a system call in each free that finds an open
 * capture.
 */
static struct {
    _Alignas(64) atomic_uint n;
    char behind[64 - sizeof(atomic_uint)];
} recorders;

static void gate_leave(void) {
    atomic_fetch_sub(&recorders.n, 1);
}

static void await_recorders(void) {
    unsigned n_looks = 0;
    while (atomic_load(&recorders.n))
        cushim_futex_back_off(&n_looks);
}

static enum cushim_mem_pass gate_enter(void) {
    atomic_fetch_add(&recorders.n, 1);
    if (!(atomic_load(&cushim_guard.now) & CUSHIM_GUARD_CAPTURES))
        return CUSHIM_MEM_PASS_RECORD;
    gate_leave();
    return cushim_capture_is_own(cushim_driver()) ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED;
}

const struct cushim_mem_capture_guard cushim_capture_guard = {cushim_capture_is_open, gate_enter,
                                                              gate_leave};

/* Make room for one more entry.  The caller holds the lock. */
static bool make_room(void) {
    unsigned n = n_room ? 2 * n_room : 16;
    if (n_entries < n_room)
        return true;
    struct entry *more_entries = realloc(entries, n * sizeof *entries);
    if (more_entries)
        entries = more_entries;
    struct cushim_mem_graph_resources **more_holds = realloc(holds, n * sizeof *holds);
    if (more_holds)
        holds = more_holds;
    if (more_entries && more_holds)
        n_room = n;
    return n_entries < n_room;
}

bool cushim_capture_begin_enter(void) {
    pthread_mutex_lock(&lock);
    if (make_room()) {
        atomic_fetch_add(&cushim_guard.now, CUSHIM_GUARD_CAPTURE);
        await_recorders();
        return true;
    }
    pthread_mutex_unlock(&lock);
    return false;
}

/* ---- threads that end, and their default streams with them ---- */

static void end_thread(void *thread) {
    if (!cushim_process_is_on() || !cushim_capture_is_open())
        return;
    CUSHIM_LOCKED(&lock);
    for (unsigned i = n_entries; i--;) {
        if (entries[i].thread != thread)
            continue;
        entries[i].thread = NULL; /* because another thread may get this address */
        if (entries[i].begun.stream == CU_STREAM_PER_THREAD)
            remove_at(i);
    }
}

CUSHIM_THREAD_END(watch_thread, end_thread)

void cushim_capture_begin_leave(const struct cushim_capture *capture, CUresult answer) {
    if (answer == CUDA_SUCCESS) {
        remove_stream(capture->stream); /* an older capture whose end nobody saw; the handle is used
                                         * again */
        entries[n_entries++] = (struct entry){.begun = *capture, .thread = &cushim_thread};
    } else {
        atomic_fetch_sub(&cushim_guard.now, CUSHIM_GUARD_CAPTURE);
    }
    pthread_mutex_unlock(&lock);
    if (answer == CUDA_SUCCESS)
        watch_thread(&cushim_thread);
}

bool cushim_capture_free(const struct cushim_mem_lookup *lookup, enum cushim_status *status) {
    unsigned n_holds = 0;
    if (!cushim_capture_is_open() || cushim_process_options.capture != CAPTURE_SERVE)
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_entries; i++) {
        if (entries[i].thread == &cushim_thread)
            holds[n_holds++] = &entries[i].hold;
    }
    if (n_holds)
        *status = cushim_mem_graph_resources_free(lookup->segment->heap, lookup, holds, n_holds);
    pthread_mutex_unlock(&lock);
    if (n_holds && *status == CUSHIM_NOMEM) { /* for the program the free succeeded */
        cushim_mem_stats_add(&cushim_page.n_stuck_blocks, 1);
        *status = CUSHIM_OK;
    }
    return n_holds != 0;
}

static void let_go(void *first) {
    cushim_mem_graph_resources_let_go(first);
}

/* From here on the driver tells us when the last copy of the graph is gone. */
static bool hand_over(struct cushim_cuda *cuda, CUgraph graph,
                      struct cushim_mem_graph_resources_slot *first) {
    CUuserObject object;
    if (!cuda->cuUserObjectCreate || !cuda->cuGraphRetainUserObject)
        return false;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    /* if the graph does not take the object, leave the object alone, because its destructor must
     * not run */
    bool is_taken =
        cuda->cuUserObjectCreate(&object, first, let_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) ==
            CUDA_SUCCESS &&
        cuda->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS;
    cushim_mode_back(cuda, mode);
    return is_taken;
}

/* Never reuse what the graph may use, because nobody will tell us when it is gone. */
static void give_up(const struct cushim_mem_graph_resources *hold) {
    static atomic_bool is_told;
    cushim_mem_stats_add(&cushim_page.n_stuck_blocks, hold->n_blocks);
    if (!atomic_exchange(&is_told, true))
        log_error("capture",
                  "a graph took no user object: what was freed in captures is not reused");
}

/* Does a capture go on after its end was refused?  Only the driver knows; any thread may ask. */
static bool goes_on(struct cushim_cuda *cuda, CUstream stream, CUresult answer) {
    if (answer == CUDA_SUCCESS || !cuda->cuStreamIsCapturing)
        return answer == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return cushim_capture_is_captured(cuda, stream);
}

void cushim_capture_end(struct cushim_cuda *cuda, CUstream stream, CUresult answer, CUgraph graph) {
    struct cushim_mem_graph_resources hold = {0};
    if (!cushim_capture_is_open() || goes_on(cuda, stream, answer))
        return;
    pthread_mutex_lock(&lock);
    unsigned i = place_of(stream);
    if (i < n_entries) {
        /* a graph that existed before the capture keeps what went into it, whatever the end
         * answered */
        if (entries[i].begun.graph)
            graph = entries[i].begun.graph;
        if (graph) {
            hold = entries[i].hold;
            entries[i].hold = (struct cushim_mem_graph_resources){0};
        }
        remove_at(i);
    }
    pthread_mutex_unlock(&lock);
    if (hold.first && !hand_over(cuda, graph, hold.first))
        give_up(&hold);
}

void cushim_capture_drop_stream(CUstream stream) {
    if (!cushim_capture_is_open())
        return;
    CUSHIM_LOCKED(&lock);
    remove_stream(stream);
}

void cushim_capture_drop_context(CUcontext context) {
    if (!cushim_capture_is_open())
        return;
    CUSHIM_LOCKED(&lock);
    for (unsigned i = n_entries; i--;) {
        if (entries[i].begun.context == context)
            remove_at(i);
    }
}

void cushim_capture_drop_all(void) {
    if (!cushim_capture_is_open())
        return;
    CUSHIM_LOCKED(&lock);
    while (n_entries)
        remove_at(n_entries - 1);
}

CUSHIM_EXPORT int cushim_preload_capturing(struct CUctx_st *context) {
    int n = 0;
    if (!cushim_process_is_on())
        return 0;
    CUcontext owner = context ? cushim_contexts_owner(context) : NULL;
    CUSHIM_LOCKED(&lock); /* before the lock of contexts, as everywhere */
    for (unsigned i = 0; i < n_entries; i++)
        n += !context || cushim_contexts_owner(entries[i].begun.context) == owner;
    return n;
}
