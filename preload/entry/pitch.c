#include "preload/entry/pitch.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "base/lock.h"
#include "cuda/table.h"
#include "preload/entry/alloc.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/state/process_options.h"

/* The newest of each place stays. */
enum { N_KNOWN = 256, PITCH_GRAIN_BYTES = 512 };

struct pitch {
    CUdevice device;
    unsigned element_bytes;
    size_t width_bytes, pitch_bytes; /* 0: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pitch known[N_KNOWN];
static atomic_bool is_any_known;

static struct pitch *place_of(const struct pitch *pitch) {
    uint64_t key =
        pitch->width_bytes ^ (uint64_t)pitch->device << 48 ^ (uint64_t)pitch->element_bytes << 40;
    return &known[(key * 0x9e3779b97f4a7c15u >> 32) % N_KNOWN];
}

/* False: the driver was not asked yet. */
static bool find(struct cushim_cuda *cuda, struct pitch *pitch) {
    if (!atomic_load(&is_any_known) || cuda->cuCtxGetDevice(&pitch->device) != CUDA_SUCCESS)
        return false;
    CUSHIM_LOCKED(&lock);
    const struct pitch *row = place_of(pitch);
    bool is_known = row->pitch_bytes && row->device == pitch->device &&
                    row->width_bytes == pitch->width_bytes &&
                    row->element_bytes == pitch->element_bytes;
    if (is_known)
        *pitch = *row;
    return is_known;
}

static void remember(struct cushim_cuda *cuda, struct pitch *pitch) {
    if (cuda->cuCtxGetDevice(&pitch->device) != CUDA_SUCCESS)
        return;
    atomic_store(&is_any_known, true);
    CUSHIM_LOCKED(&lock);
    *place_of(pitch) = *pitch;
}

/* With the pitch that the driver gives (measured). */
static bool spill(struct cushim_cuda *cuda, CUdeviceptr *address, size_t *pitch_bytes,
                  size_t width_bytes, size_t height) {
    size_t row_bytes, n_bytes;
    if (!cushim_round_up(width_bytes, PITCH_GRAIN_BYTES, &row_bytes) ||
        __builtin_mul_overflow(row_bytes, height, &n_bytes) || !n_bytes ||
        !cushim_entry_spill(cuda, address, n_bytes))
        return false;
    *pitch_bytes = row_bytes;
    return true;
}

static CUresult alloc_by_driver(struct cushim_cuda *cuda, CUdeviceptr *address, size_t *pitch_bytes,
                                size_t width_bytes, size_t height, unsigned element_bytes) {
    size_t least_bytes;
    bool is_admitted = true;
    if (__builtin_mul_overflow(width_bytes, height, &least_bytes))
        least_bytes = SIZE_MAX;
    else
        is_admitted = cushim_device_limit_admits(cuda, least_bytes);
    CUresult answer = CUDA_ERROR_OUT_OF_MEMORY;
    if (is_admitted)
        answer = CUSHIM_ENTRY_RETRIED(
            cuda->cuMemAllocPitch_v2(address, pitch_bytes, width_bytes, height, element_bytes));
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && address && pitch_bytes &&
        spill(cuda, address, pitch_bytes, width_bytes, height))
        return CUDA_SUCCESS;
    bool is_there = answer == CUDA_SUCCESS;
    return cushim_entry_note(cuda, CUSHIM_KIND_DEVICE, answer, is_there ? *address : 0,
                             is_there ? *pitch_bytes * height : least_bytes);
}

CUresult cushim_pitch_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t *pitch_bytes,
                            size_t width_bytes, size_t height, unsigned element_bytes) {
    size_t n_bytes;
    struct pitch pitch = {.element_bytes = element_bytes, .width_bytes = width_bytes};
    bool is_pooled =
        cushim_process_is_on() && cushim_process_options.pool && address && pitch_bytes;
    if (is_pooled && find(cuda, &pitch) &&
        !__builtin_mul_overflow(pitch.pitch_bytes, height, &n_bytes) && n_bytes) {
        CUresult answer = cushim_entry_alloc(cuda, address, n_bytes);
        *pitch_bytes = answer == CUDA_SUCCESS ? pitch.pitch_bytes : *pitch_bytes;
        return answer;
    }
    CUresult answer =
        alloc_by_driver(cuda, address, pitch_bytes, width_bytes, height, element_bytes);
    if (is_pooled && answer == CUDA_SUCCESS) {
        pitch.pitch_bytes = *pitch_bytes;
        remember(cuda, &pitch);
    }
    return answer;
}
