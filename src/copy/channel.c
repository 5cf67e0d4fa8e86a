#include "copy/channel.h"

#include "copy/host.h"
#include "cuda/table.h"

bool cushim_copy_channel_make(struct cushim_cuda *cuda, struct cushim_copy_channel *channel) {
    *channel = (struct cushim_copy_channel){0};
    if (cuda->cuStreamCreate(&channel->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
        cuda->cuEventCreate(&channel->done[0], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
        cuda->cuEventCreate(&channel->done[1], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        return true;
    cushim_copy_channel_unmake(cuda, channel);
    return false;
}

void cushim_copy_channel_unmake(struct cushim_cuda *cuda, struct cushim_copy_channel *channel) {
    for (int i = 0; i < 2; i++) {
        if (channel->done[i])
            cuda->cuEventDestroy_v2(channel->done[i]);
    }
    if (channel->stream)
        cuda->cuStreamDestroy_v2(channel->stream);
    *channel = (struct cushim_copy_channel){0};
}

void cushim_copy_job_fail(struct cushim_copy_job *job, enum cushim_copy_outcome outcome) {
    int done = CUSHIM_COPY_DONE;
    atomic_compare_exchange_strong(&job->outcome, &done, (int)outcome);
}

static CUresult transfer_rows(struct cushim_cuda *cuda, const struct cushim_copy_cut *cut,
                              const struct cushim_copy_piece *piece, char *buffer,
                              CUstream stream) {
    CUDA_MEMCPY2D rows = {.WidthInBytes = piece->width_bytes, .Height = piece->n_rows};
    if (cut->box.is_to_device) {
        rows.srcMemoryType = CU_MEMORYTYPE_HOST;
        rows.srcHost = buffer;
        rows.srcPitch = piece->width_bytes;
        rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.dstDevice = piece->device;
        rows.dstPitch = cut->box.device.row_bytes;
    } else {
        rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.srcDevice = piece->device;
        rows.srcPitch = cut->box.device.row_bytes;
        rows.dstMemoryType = CU_MEMORYTYPE_HOST;
        rows.dstHost = buffer;
        rows.dstPitch = piece->width_bytes;
    }
    return cuda->cuMemcpy2DAsync_v2(&rows, stream);
}

static CUresult transfer(struct cushim_cuda *cuda, const struct cushim_copy_cut *cut,
                         const struct cushim_copy_piece *piece, char *buffer, CUstream stream) {
    if (piece->n_rows > 1)
        return transfer_rows(cuda, cut, piece, buffer, stream);
    return cut->box.is_to_device
               ? cuda->cuMemcpyHtoDAsync_v2(piece->device, buffer, piece->width_bytes, stream)
               : cuda->cuMemcpyDtoHAsync_v2(buffer, piece->device, piece->width_bytes, stream);
}

/* The work that was under way when a call failed must end before a buffer is touched again. */
static void fail(struct cushim_cuda *cuda, struct cushim_copy_channel *channel,
                 struct cushim_copy_job *job) {
    cushim_copy_job_fail(job, CUSHIM_COPY_REFUSED);
    if (cuda->cuStreamSynchronize(channel->stream) != CUDA_SUCCESS)
        channel->is_lost = true;
}

/* A piece that is under way in a buffer. */
struct flight {
    bool is_on;
    struct cushim_copy_piece piece;
};

/* Start the transfer of a piece; false: it failed. */
static bool start(struct cushim_cuda *cuda, struct cushim_copy_channel *channel, int i,
                  struct cushim_copy_job *job, const struct cushim_copy_piece *piece) {
    if (channel->is_lost) {
        cushim_copy_job_fail(job, CUSHIM_COPY_REFUSED);
        return false;
    }
    if (!cushim_copy_host_is_there(&job->cut, piece)) {
        cushim_copy_job_fail(job, CUSHIM_COPY_HOST_IS_NOT);
        return false;
    }
    if (job->cut.box.is_to_device)
        cushim_copy_host_read(&job->cut, piece, channel->buffers[i]);
    if (transfer(cuda, &job->cut, piece, channel->buffers[i], channel->stream) == CUDA_SUCCESS &&
        cuda->cuEventRecord(channel->done[i], channel->stream) == CUDA_SUCCESS)
        return true;
    fail(cuda, channel, job);
    return false;
}

/* Wait for the transfer, and empty the buffer if it came from the device. */
static void finish(struct cushim_cuda *cuda, struct cushim_copy_channel *channel, int i,
                   struct cushim_copy_job *job, struct flight *flight) {
    if (!flight->is_on)
        return;
    flight->is_on = false;
    if (cuda->cuEventSynchronize(channel->done[i]) != CUDA_SUCCESS) {
        fail(cuda, channel, job);
    } else if (!job->cut.box.is_to_device) {
        cushim_copy_host_write(&job->cut, &flight->piece, channel->buffers[i]);
    }
}

void cushim_copy_channel_turn(struct cushim_cuda *cuda, struct cushim_copy_channel *channel,
                              struct cushim_copy_job *job, const atomic_uint *n_waiting) {
    struct flight flights[2] = {{0}};
    int i = 0;
    do {
        size_t n = job->cut.n_pieces;
        if (cushim_copy_job_has_more(job))
            n = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (n >= job->cut.n_pieces)
            break;
        finish(cuda, channel, i, job, &flights[i]);
        flights[i].piece = cushim_copy_piece(&job->cut, n);
        flights[i].is_on = start(cuda, channel, i, job, &flights[i].piece);
        i = !i;
    } while (!atomic_load_explicit(n_waiting, memory_order_relaxed));
    finish(cuda, channel, i, job, &flights[i]);
    finish(cuda, channel, !i, job, &flights[!i]);
}
