#include "preload/capture.h"

#include <pthread.h>

#include "base/log.h"
#include "cushim/preload.h"
#include "preload/engine.h"

struct entry {
    CUstream stream;
    const struct cushim_thread *thread; /* who began it */
    CUcontext context;
    CUstreamCaptureMode mode;
};

/* More captures open at once than this are not told apart: from then on one counts as open for
 * ever. */
enum { MOST = 256 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct entry entries[MOST];
static unsigned n_entries;
atomic_uint cushim_capture_n_open; /* n_entries, or more once the table was full; under the lock */

static bool is_entry_of(const struct entry *entry, CUstream stream) {
    return entry->stream == stream &&
           (stream != CU_STREAM_PER_THREAD || entry->thread == &cushim_thread);
}

static void remove_at(unsigned i) {
    entries[i] = entries[--n_entries];
    atomic_fetch_sub(&cushim_capture_n_open, 1);
}

static void remove_stream(CUstream stream) {
    for (unsigned i = 0; i < n_entries; i++) {
        if (is_entry_of(&entries[i], stream)) {
            remove_at(i);
            return;
        }
    }
}

bool cushim_capture_is_own(struct cushim_cuda *cuda) {
    bool is_own = false;
    pthread_rwlock_rdlock(&lock);
    for (unsigned i = 0; i < n_entries && !is_own; i++)
        is_own = entries[i].thread == &cushim_thread &&
                 entries[i].mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_rwlock_unlock(&lock);
    if (!is_own || !cuda->cuThreadExchangeStreamCaptureMode)
        return is_own;
    /* a thread that exchanged its own mode for RELAXED is allowed everything: ask, and put it back
     */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->cuThreadExchangeStreamCaptureMode(&mode);
    is_own = mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->cuThreadExchangeStreamCaptureMode(&mode);
    return is_own;
}

static enum cushim_mem_pass gate_enter(void) {
    pthread_rwlock_rdlock(&lock);
    if (!cushim_capture_is_open())
        return CUSHIM_MEM_PASS_RECORD;
    pthread_rwlock_unlock(&lock);
    return cushim_capture_is_own(cushim_driver()) ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED;
}

static void gate_leave(void) {
    pthread_rwlock_unlock(&lock);
}

const struct cushim_mem_gate cushim_capture_gate = {cushim_capture_is_open, gate_enter, gate_leave};

void cushim_capture_begin_enter(void) {
    pthread_rwlock_wrlock(&lock);
}

void cushim_capture_begin_leave(CUstream stream, CUcontext context, CUstreamCaptureMode mode,
                                CUresult answer) {
    if (answer == CUDA_SUCCESS) {
        remove_stream(stream); /* a stream that died unseen, its handle born again */
        if (n_entries < MOST)
            entries[n_entries++] = (struct entry){stream, &cushim_thread, context, mode};
        else
            log_error("capture", "more than %d captures are open; frees wait as native from now on",
                      MOST);
        atomic_fetch_add(&cushim_capture_n_open, 1);
    }
    pthread_rwlock_unlock(&lock);
}

void cushim_capture_end(CUstream stream, CUresult answer) {
    if (answer == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) /* it goes on */
        return;
    cushim_capture_drop_stream(stream);
}

void cushim_capture_drop_stream(CUstream stream) {
    if (!cushim_capture_is_open())
        return;
    pthread_rwlock_wrlock(&lock);
    remove_stream(stream);
    pthread_rwlock_unlock(&lock);
}

void cushim_capture_drop_context(CUcontext context) {
    if (!cushim_capture_is_open())
        return;
    pthread_rwlock_wrlock(&lock);
    for (unsigned i = n_entries; i--;) {
        if (entries[i].context == context)
            remove_at(i);
    }
    pthread_rwlock_unlock(&lock);
}

CUSHIM_EXPORT int cushim_preload_capturing(struct CUctx_st *context) {
    int n = 0;
    if (!cushim_engine_is_on())
        return 0;
    pthread_rwlock_rdlock(&lock);
    for (unsigned i = 0; i < n_entries; i++)
        n += !context || entries[i].context == context;
    pthread_rwlock_unlock(&lock);
    return n;
}
