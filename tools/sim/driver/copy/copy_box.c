#include "copy_box.h"

#include "tools/sim/driver/memory/array.h"
#include "tools/sim/driver/core/calls.h"

/* One end: its start, and the distances of its rows and layers. */
struct end {
    CUdeviceptr address;
    size_t pitch, slice;
    enum sim_end_kind kind;
};

struct end_words { /* as the program gives it */
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x_bytes, y, z, pitch, height;
};

static CUresult find_array(const struct end_words *words, const CUDA_MEMCPY3D_PEER *shape,
                           struct end *end) {
    struct sim_array *array;
    SIM_TRY(sim_array_of_handle(words->array, &array));
    size_t height = array->slice_bytes / array->pitch_bytes;
    size_t depth = array->n_bytes / array->slice_bytes;
    if (words->x_bytes + shape->WidthInBytes > array->pitch_bytes ||
        words->y + shape->Height > height || words->z + shape->Depth > depth)
        return CUDA_ERROR_INVALID_VALUE;
    *end = (struct end){array->address, array->pitch_bytes, array->slice_bytes, SIM_END_DEVICE};
    return CUDA_SUCCESS;
}

static CUresult find_linear(const struct end_words *words, const CUDA_MEMCPY3D_PEER *shape,
                            struct end *end) {
    bool is_host = words->type == CU_MEMORYTYPE_HOST;
    end->address = is_host ? (CUdeviceptr)(uintptr_t)words->host : words->device;
    end->kind = is_host                                ? SIM_END_HOST
                : words->type == CU_MEMORYTYPE_UNIFIED ? SIM_END_UNIFIED
                                                       : SIM_END_DEVICE;
    end->pitch = words->pitch ? words->pitch : words->x_bytes + shape->WidthInBytes;
    size_t height = words->height ? words->height : words->y + shape->Height;
    if (end->pitch < words->x_bytes + shape->WidthInBytes || height < words->y + shape->Height ||
        __builtin_mul_overflow(end->pitch, height, &end->slice))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult find_end(const struct end_words *words, const CUDA_MEMCPY3D_PEER *shape,
                         struct end *end) {
    size_t rows, layers;
    switch (words->type) {
    case CU_MEMORYTYPE_ARRAY:
        SIM_TRY(find_array(words, shape, end));
        break;
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        SIM_TRY(find_linear(words, shape, end));
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (__builtin_mul_overflow(words->y, end->pitch, &rows) ||
        __builtin_mul_overflow(words->z, end->slice, &layers))
        return CUDA_ERROR_INVALID_VALUE;
    end->address += words->x_bytes + rows + layers;
    return CUDA_SUCCESS;
}

CUresult sim_copy_box(const CUDA_MEMCPY3D_PEER *shape, struct sim_copy *out) {
    struct end dst, src;
    const struct end_words dst_words = {shape->dstMemoryType, shape->dstHost,     shape->dstDevice,
                                        shape->dstArray,      shape->dstXInBytes, shape->dstY,
                                        shape->dstZ,          shape->dstPitch,    shape->dstHeight};
    const struct end_words src_words = {shape->srcMemoryType, shape->srcHost,     shape->srcDevice,
                                        shape->srcArray,      shape->srcXInBytes, shape->srcY,
                                        shape->srcZ,          shape->srcPitch,    shape->srcHeight};
    SIM_TRY(find_end(&dst_words, shape, &dst));
    SIM_TRY(find_end(&src_words, shape, &src));
    *out = (struct sim_copy){.box = {.dst = (char *)(uintptr_t)dst.address,
                                     .src = (const char *)(uintptr_t)src.address,
                                     .dst_pitch = dst.pitch,
                                     .dst_slice = dst.slice,
                                     .src_pitch = src.pitch,
                                     .src_slice = src.slice,
                                     .width_bytes = shape->WidthInBytes,
                                     .height = shape->Height,
                                     .depth = shape->Depth},
                             .dst_kind = dst.kind,
                             .src_kind = src.kind};
    return CUDA_SUCCESS;
}

CUresult sim_copy_box_of_3d(const CUDA_MEMCPY3D *shape, struct sim_copy *out) {
    const CUDA_MEMCPY3D_PEER wide = {.srcXInBytes = shape->srcXInBytes,
                                     .srcY = shape->srcY,
                                     .srcZ = shape->srcZ,
                                     .srcMemoryType = shape->srcMemoryType,
                                     .srcHost = shape->srcHost,
                                     .srcDevice = shape->srcDevice,
                                     .srcArray = shape->srcArray,
                                     .srcPitch = shape->srcPitch,
                                     .srcHeight = shape->srcHeight,
                                     .dstXInBytes = shape->dstXInBytes,
                                     .dstY = shape->dstY,
                                     .dstZ = shape->dstZ,
                                     .dstMemoryType = shape->dstMemoryType,
                                     .dstHost = shape->dstHost,
                                     .dstDevice = shape->dstDevice,
                                     .dstArray = shape->dstArray,
                                     .dstPitch = shape->dstPitch,
                                     .dstHeight = shape->dstHeight,
                                     .WidthInBytes = shape->WidthInBytes,
                                     .Height = shape->Height,
                                     .Depth = shape->Depth};
    return sim_copy_box(&wide, out);
}

static CUresult box_of_2d(const CUDA_MEMCPY2D *shape, struct sim_copy *out) {
    const CUDA_MEMCPY3D_PEER deep = {.srcXInBytes = shape->srcXInBytes,
                                     .srcY = shape->srcY,
                                     .srcMemoryType = shape->srcMemoryType,
                                     .srcHost = shape->srcHost,
                                     .srcDevice = shape->srcDevice,
                                     .srcArray = shape->srcArray,
                                     .srcPitch = shape->srcPitch,
                                     .dstXInBytes = shape->dstXInBytes,
                                     .dstY = shape->dstY,
                                     .dstMemoryType = shape->dstMemoryType,
                                     .dstHost = shape->dstHost,
                                     .dstDevice = shape->dstDevice,
                                     .dstArray = shape->dstArray,
                                     .dstPitch = shape->dstPitch,
                                     .WidthInBytes = shape->WidthInBytes,
                                     .Height = shape->Height,
                                     .Depth = 1};
    return sim_copy_box(&deep, out);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *shape, CUstream stream, CUstream default_stream,
                        bool is_sync) {
    struct sim_copy copy;
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(box_of_2d(shape, &copy));
    return sim_copy_do(&copy, stream, default_stream, is_sync);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *shape, CUstream stream, CUstream default_stream,
                        bool is_sync) {
    struct sim_copy copy;
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_copy_box_of_3d(shape, &copy));
    return sim_copy_do(&copy, stream, default_stream, is_sync);
}

static CUresult copy_peer(const CUDA_MEMCPY3D_PEER *shape, CUstream stream, CUstream default_stream,
                          bool is_sync) {
    struct sim_copy copy;
    if (!shape)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_copy_box(shape, &copy));
    SIM_TRY(sim_copy_between(&copy, shape->dstContext, shape->srcContext));
    return sim_copy_do(&copy, stream, default_stream, is_sync);
}

/* ---- the names ---- */

SIM_BOTH(cuMemcpy2D_v2, _ptds, TAKES(const CUDA_MEMCPY2D *pCopy),
         copy_2d(pCopy, NULL, default_stream, true))

SIM_BOTH(cuMemcpy2DUnaligned_v2, _ptds, TAKES(const CUDA_MEMCPY2D *pCopy),
         copy_2d(pCopy, NULL, default_stream, true))

SIM_BOTH(cuMemcpy2DAsync_v2, _ptsz, TAKES(const CUDA_MEMCPY2D *pCopy, CUstream hStream),
         copy_2d(pCopy, hStream, default_stream, false))

SIM_BOTH(cuMemcpy3D_v2, _ptds, TAKES(const CUDA_MEMCPY3D *pCopy),
         copy_3d(pCopy, NULL, default_stream, true))

SIM_BOTH(cuMemcpy3DAsync_v2, _ptsz, TAKES(const CUDA_MEMCPY3D *pCopy, CUstream hStream),
         copy_3d(pCopy, hStream, default_stream, false))

SIM_BOTH(cuMemcpy3DPeer, _ptds, TAKES(const CUDA_MEMCPY3D_PEER *pCopy),
         copy_peer(pCopy, NULL, default_stream, true))

SIM_BOTH(cuMemcpy3DPeerAsync, _ptsz, TAKES(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream),
         copy_peer(pCopy, hStream, default_stream, false))
