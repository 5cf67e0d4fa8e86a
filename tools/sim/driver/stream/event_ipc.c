#include "event_ipc.h"

#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/memory/ipc_slot.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MAGIC[8] = "cushime";

struct handle {
    char magic[8];
    struct sim_ipc_name name;
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "a handle has room for ours");

/* A slot and its users: the event, and steps that may outlive it. */
struct sim_event_slot {
    unsigned n_refs;
    struct sim_ipc_slot *words;
    bool is_ours; /* else opened */
};

static void unref(struct sim_event_slot *slot) {
    if (--slot->n_refs != 0)
        return;
    if (slot->is_ours)
        sim_ipc_slot_drop(slot->words);
    else
        sim_ipc_slot_close(slot->words);
    free(slot);
}

/* Takes the words. */
static CUresult attach(struct sim_event *event, struct sim_ipc_slot *words, bool is_ours) {
    struct sim_event_slot *slot = words ? calloc(1, sizeof *slot) : NULL;
    if (!slot) {
        if (words && is_ours)
            sim_ipc_slot_drop(words);
        else if (words)
            sim_ipc_slot_close(words);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *slot = (struct sim_event_slot){.n_refs = 1, .words = words, .is_ours = is_ours};
    event->slot = slot;
    return CUDA_SUCCESS;
}

CUresult sim_event_share(struct sim_event *event) {
    return attach(event, sim_ipc_slot_take(), true);
}

void sim_event_unshare(struct sim_event *event) {
    if (event->slot)
        unref(event->slot);
    event->slot = NULL;
}

static struct sim_work work_of(enum sim_work_kind kind, struct sim_event_slot *slot, uint64_t n) {
    slot->n_refs++;
    return (struct sim_work){.kind = kind, .as.event = {slot, n}};
}

void sim_event_work_finish(struct sim_work *work) {
    unref(work->as.event.slot);
}

struct sim_work sim_event_record_work(struct sim_event *event) {
    struct sim_ipc_slot *words = event->slot->words;
    event->n_own = atomic_fetch_add(&words->n_asked, 1) + 1;
    atomic_store(&words->asker, (int32_t)getpid());
    return work_of(SIM_WORK_TELL, event->slot, event->n_own);
}

bool sim_event_waits_for_others(const struct sim_event *event, struct sim_work *work) {
    if (!event->slot)
        return false;
    uint64_t n_asked = atomic_load(&event->slot->words->n_asked);
    if (n_asked == event->n_own)
        return false;
    struct sim_work found = work_of(SIM_WORK_HEAR, event->slot, n_asked);
    if (work && !sim_event_turn(&found)) {
        *work = found;
        return true;
    }
    bool is_done = sim_event_turn(&found);
    sim_event_work_finish(&found);
    return !is_done;
}

bool sim_event_turn(const struct sim_work *work) {
    struct sim_ipc_slot *words = work->as.event.slot->words;
    uint64_t n_done = atomic_load(&words->n_done);
    if (work->kind == SIM_WORK_HEAR)
        return n_done >= work->as.event.n || sim_ipc_is_dead(atomic_load(&words->asker));
    while (n_done < work->as.event.n &&
           !atomic_compare_exchange_weak(&words->n_done, &n_done, work->as.event.n))
        ;
    return true;
}

/* ---- handles ---- */

static CUresult get(CUipcEventHandle *out, CUevent event_handle) {
    struct sim_event *event;
    struct handle handle = {.magic = {0}};
    SIM_TRY(sim_event_of_handle(event_handle, &event));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!event->slot || !(event->flags & CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!event->slot->is_ours || !sim_ipc_slot_name(event->slot->words, &handle.name))
        return CUDA_ERROR_MAP_FAILED;
    memcpy(handle.magic, MAGIC, sizeof MAGIC);
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
    SIM_ENTER(cuIpcGetEventHandle);
    return sim_leave(get(pHandle, event));
}

static CUresult open_handle(CUevent *out, const CUipcEventHandle *bytes) {
    struct handle handle;
    struct sim_context *context;
    SIM_TRY(sim_context_current(&context));
    memcpy(&handle, bytes, sizeof handle);
    if (!out || memcmp(handle.magic, MAGIC, sizeof MAGIC) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.name.pid == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_ipc_slot *words = sim_ipc_slot_open(&handle.name);
    if (!words)
        return CUDA_ERROR_MAP_FAILED;
    struct sim_event *event = calloc(1, sizeof *event);
    if (!event) {
        sim_ipc_slot_close(words);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (attach(event, words, false) != CUDA_SUCCESS || !sim_handle_add(event, SIM_HANDLE_EVENT)) {
        sim_event_unshare(event);
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
    SIM_ENTER(cuIpcOpenEventHandle);
    return sim_leave(open_handle(phEvent, &handle));
}
