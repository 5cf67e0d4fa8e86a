#include "capture.h"

#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/stream/event.h"
#include "tools/sim/driver/stream/stream.h"
#include "tools/sim/driver/core/thread.h"

#include <stdlib.h>

static struct sim_capture *open_captures;
static unsigned long long last_id;

static CUresult invalidate(struct sim_capture *capture, CUresult refusal) {
    capture->is_invalid = true;
    return refusal;
}

/* ---- begin and end ---- */

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
                           struct sim_graph *graph, const struct sim_nodes *after) {
    if (stream->kind == SIM_STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->graph = graph ? graph : sim_graph_create();
    if (!capture->graph || !sim_nodes_copy(&stream->tips, after)) {
        if (!graph)
            sim_graph_unref(capture->graph);
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->graph->is_captured_into = true;
    capture->is_graph_given = graph != NULL;
    capture->id = ++last_id;
    capture->mode = mode;
    capture->thread = sim_thread()->number;
    capture->origin = stream;
    capture->next = open_captures;
    open_captures = capture;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

/* The next stream of a capture after `at` (NULL: the first), of all contexts. */
static struct sim_stream *next_stream(const struct sim_capture *capture, struct sim_stream *at) {
    struct sim_context *context = at ? at->context->root : sim_contexts();
    struct sim_stream *stream = at ? at->next : NULL;
    if (!at && context)
        stream = context->streams;
    while (context) {
        for (; stream; stream = stream->next) {
            if (stream->capture == capture)
                return stream;
        }
        context = context->next;
        stream = context ? context->streams : NULL;
    }
    return NULL;
}

/* Has the origin joined all streams that its capture spread to? */
static bool is_joined(const struct sim_capture *capture) {
    for (struct sim_stream *stream = next_stream(capture, NULL); stream;
         stream = next_stream(capture, stream)) {
        for (size_t i = 0; i < stream->tips.n; i++) {
            if (!sim_node_is_before(stream->tips.nodes[i], &capture->origin->tips))
                return false;
        }
    }
    return true;
}

/* All streams leave it; the graph goes unless it is to be kept. */
static void close_capture(struct sim_capture *capture, bool keeps_graph) {
    struct sim_stream *stream;
    while ((stream = next_stream(capture, NULL))) {
        stream->capture = NULL;
        sim_nodes_finish(&stream->tips);
    }
    struct sim_capture **at = &open_captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    capture->graph->is_captured_into = false;
    if (!keeps_graph && !capture->is_graph_given)
        sim_graph_unref(capture->graph);
    free(capture);
}

CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **graph) {
    struct sim_capture *capture = stream->capture;
    *graph = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread()->number)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream)
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CUresult result = CUDA_SUCCESS;
    if (capture->is_invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == CUDA_SUCCESS)
        *graph = capture->graph;
    close_capture(capture, result == CUDA_SUCCESS);
    return result;
}

void sim_capture_lose_stream(struct sim_stream *stream) {
    struct sim_capture *capture = stream->capture;
    if (!capture)
        return;
    capture->is_invalid = true;
    if (capture->origin == stream) {
        close_capture(capture, false);
        return;
    }
    stream->capture = NULL;
    sim_nodes_finish(&stream->tips);
}

/* ---- what is captured ---- */

CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work) {
    struct sim_capture *capture = stream->capture;
    if (capture->is_invalid) {
        sim_work_finish(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    struct sim_node *node = sim_graph_add(capture->graph, work, &stream->tips);
    if (!node)
        return invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
    stream->tips.n = 0;
    if (!sim_nodes_add(&stream->tips, node))
        return invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event) {
    struct sim_capture *capture = stream->capture;
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    sim_event_clear(event);
    if (!sim_nodes_copy(&event->tips, &stream->tips))
        return invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
    event->capture_id = capture->id;
    return CUDA_SUCCESS;
}

static struct sim_capture *find(unsigned long long id) {
    struct sim_capture *capture = open_captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event) {
    struct sim_capture *own = stream->capture, *other = find(event->capture_id);
    if (own && own->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture_id && !other)
        return own ? invalidate(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                   : CUDA_ERROR_CAPTURED_EVENT;
    if (!other) /* recorded outside, or never */
        return event->record ? invalidate(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION) : CUDA_SUCCESS;
    if (other->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->kind == SIM_STREAM_LEGACY)
        return invalidate(other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (own && own != other) {
        invalidate(own, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        return invalidate(other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    stream->capture = other;
    if (!sim_nodes_copy(&stream->tips, &event->tips))
        return invalidate(other, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

/* ---- what is refused ---- */

/* The rule of cuThreadExchangeStreamCaptureMode. */
static bool forbids_unsafe(const struct sim_capture *capture, const struct sim_thread *thread) {
    if (capture->thread == thread->number)
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_refuse_unsafe(void) {
    const struct sim_thread *thread = sim_thread();
    CUresult result = CUDA_SUCCESS;
    if (thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    for (struct sim_capture *capture = open_captures; capture; capture = capture->next) {
        if (forbids_unsafe(capture, thread))
            result = invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return result;
}

static CUresult refuse_beside(const struct sim_stream *legacy, bool only_asks) {
    CUresult result = CUDA_SUCCESS;
    if (!open_captures || legacy->kind != SIM_STREAM_LEGACY)
        return result;
    for (struct sim_stream *stream = legacy->context->root->streams; stream;
         stream = stream->next) {
        if (!stream->capture || !sim_stream_is_blocking(stream))
            continue;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        if (!only_asks)
            stream->capture->is_invalid = true;
    }
    return result;
}

bool sim_capture_is_beside(const struct sim_stream *legacy) {
    return refuse_beside(legacy, true) != CUDA_SUCCESS;
}

CUresult sim_capture_refuse_legacy(const struct sim_stream *stream) {
    return refuse_beside(stream, false);
}

CUresult sim_capture_refuse_wait(const struct sim_stream *stream) {
    if (stream->capture)
        return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return refuse_beside(stream, false);
}

CUresult sim_capture_refuse_context(const struct sim_context *context) {
    CUresult result = CUDA_SUCCESS;
    if (!open_captures)
        return result;
    for (struct sim_stream *stream = context->root->streams; stream; stream = stream->next) {
        if (stream->capture)
            result = invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return result;
}

CUresult sim_capture_refuse(struct sim_stream *stream, CUresult refusal) {
    return stream->capture ? invalidate(stream->capture, refusal) : CUDA_SUCCESS;
}
