#include "step.h"

#include "base/cancel.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/memory/pool.h"

#include <stdlib.h>
#include <time.h>

struct sim_step *sim_step_create(struct sim_stream *stream, struct sim_work *work) {
    struct sim_step *step = calloc(1, sizeof *step);
    if (!step) {
        sim_work_finish(work);
        return NULL;
    }
    step->n_refs = 1;
    step->stream = stream;
    step->work = *work;
    return step;
}

struct sim_step *sim_step_ref(struct sim_step *step) {
    step->n_refs++;
    return step;
}

void sim_step_unref(struct sim_step *step) {
    if (!step || --step->n_refs != 0)
        return;
    sim_work_finish(&step->work);
    while (step->n_waits_for)
        sim_step_unref(step->waits_for[--step->n_waits_for]);
    free(step->waits_for);
    free(step);
}

bool sim_step_wait_for(struct sim_step *step, struct sim_step *other) {
    if (!other || other->is_done)
        return true;
    if (step->n_waits_for == step->cap_waits_for) {
        unsigned cap = step->cap_waits_for ? 2 * step->cap_waits_for : 4;
        struct sim_step **grown = realloc(step->waits_for, cap * sizeof(struct sim_step *));
        if (!grown)
            return false;
        step->waits_for = grown;
        step->cap_waits_for = cap;
    }
    step->waits_for[step->n_waits_for++] = sim_step_ref(other);
    return true;
}

bool sim_step_is_ready(struct sim_step *step) {
    while (step->n_waits_for && step->waits_for[step->n_waits_for - 1]->is_done)
        sim_step_unref(step->waits_for[--step->n_waits_for]);
    return step->n_waits_for == 0;
}

void sim_step_complete(struct sim_step *step) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    step->done_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    step->is_done = true;
    if (step->is_awaited)
        pthread_cond_broadcast(&sim_changed);
    step->stream = NULL;
    sim_work_finish(&step->work);
}

static CUresult wait_for(struct sim_step *step) {
    sim_step_ref(step);
    step->is_awaited = true;
    int cancel = cushim_cancel_hold();
    while (!step->is_done && !sim_is_over())
        pthread_cond_wait(&sim_changed, &sim_lock);
    cushim_cancel_let(cancel);
    CUresult result = step->is_done ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
    sim_step_unref(step);
    return result;
}

CUresult sim_step_wait(struct sim_step *step) {
    CUresult result = step ? wait_for(step) : CUDA_SUCCESS;
    sim_pools_trim();
    return result;
}

bool sim_marks_add(struct sim_marks *marks, struct sim_step *step) {
    if (!step || step->is_done)
        return true;
    if (marks->n == marks->cap) {
        size_t cap = marks->cap ? 2 * marks->cap : 8;
        struct sim_step **grown = realloc(marks->steps, cap * sizeof(struct sim_step *));
        if (!grown)
            return false;
        marks->steps = grown;
        marks->cap = cap;
    }
    marks->steps[marks->n++] = sim_step_ref(step);
    return true;
}

CUresult sim_marks_wait(struct sim_marks *marks) {
    for (size_t i = 0; i < marks->n; i++)
        SIM_TRY(wait_for(marks->steps[i]));
    sim_pools_trim();
    return CUDA_SUCCESS;
}

void sim_marks_finish(struct sim_marks *marks) {
    while (marks->n)
        sim_step_unref(marks->steps[--marks->n]);
    free(marks->steps);
    *marks = (struct sim_marks){NULL, 0, 0};
}
