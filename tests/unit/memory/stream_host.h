/*
 * A host of stream fences for the tests of the engine: a capture may forbid records, and every
 * refusal of the driver is noted.
 */
#pragma once

#include "cuda/translate.h"
#include "memory/fence/stream_fence.h"

static struct {
    bool is_captured; /* a capture is open */
    bool is_gone;     /* the process or the context is gone */
    int n_inside;     /* how often it was entered and not left */
    int n_kept;
    int n_orders;    /* waits of a stream for an event */
    CUresult answer; /* the last result that was no success */
} host_seen;

static bool host_is_usable(struct cushim_mem_fence *fence) {
    return !host_seen.is_gone && !cushim_mem_fence_is_gone(fence);
}

static enum cushim_status host_refuse(struct cushim_mem_fence *fence, const char *what,
                                      const CUstream *stream) {
    (void)fence;
    (void)what;
    (void)stream;
    return host_seen.is_captured ? CUSHIM_CAPTURE : CUSHIM_OK;
}

static enum cushim_status host_enter(struct cushim_mem_fence *fence, const char *what) {
    enum cushim_status status = host_refuse(fence, what, NULL);
    host_seen.n_inside += status == CUSHIM_OK;
    return status;
}

static void host_leave(struct cushim_mem_fence *fence) {
    (void)fence;
    host_seen.n_inside--;
}

static enum cushim_status host_answer(struct cushim_mem_fence *fence, const char *entry,
                                      CUresult answer, bool is_quiet) {
    (void)fence;
    (void)entry;
    (void)is_quiet;
    if (answer != CUDA_SUCCESS)
        host_seen.answer = answer;
    return cushim_status_from_cu(answer);
}

static enum cushim_status host_order(struct cushim_mem_fence *fence, CUstream stream,
                                     CUevent event) {
    (void)fence;
    (void)stream;
    (void)event;
    host_seen.n_orders++;
    return CUSHIM_OK;
}

static void host_keep(struct cushim_mem_fence *fence) {
    (void)fence;
    host_seen.n_kept++;
}

static void host_let_go(struct cushim_mem_fence *fence) {
    (void)fence;
    host_seen.n_kept--;
}

static const struct cushim_mem_stream_host stream_host = {
    .is_usable = host_is_usable,
    .refuse = host_refuse,
    .enter = host_enter,
    .leave = host_leave,
    .answer = host_answer,
    .order = host_order,
    .is_quiet = cushim_mem_stream_fence_is_quiet,
    .keep = host_keep,
    .let_go = host_let_go,
};
