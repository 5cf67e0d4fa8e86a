/* Copies of lines: a name gives the kinds of the ends, the stream, and whether it waits. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "copy.h"

static CUdeviceptr address_of(const void *host) {
    return (CUdeviceptr)(uintptr_t)host;
}

static CUresult now(CUdeviceptr dst, enum sim_end_kind dst_kind, CUdeviceptr src,
                    enum sim_end_kind src_kind, size_t n_bytes, CUstream default_stream) {
    struct sim_copy copy = sim_copy_line(dst, dst_kind, src, src_kind, n_bytes);
    return sim_copy_do(&copy, NULL, default_stream, true);
}

static CUresult later(CUdeviceptr dst, enum sim_end_kind dst_kind, CUdeviceptr src,
                      enum sim_end_kind src_kind, size_t n_bytes, CUstream stream,
                      CUstream default_stream) {
    struct sim_copy copy = sim_copy_line(dst, dst_kind, src, src_kind, n_bytes);
    return sim_copy_do(&copy, stream, default_stream, false);
}

/* ---- that return when done ---- */

SIM_BOTH(cuMemcpy, _ptds, TAKES(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
         now(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, default_stream))

SIM_BOTH(cuMemcpyHtoD_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
         now(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount,
             default_stream))

SIM_BOTH(cuMemcpyDtoH_v2, _ptds, TAKES(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
         now(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount,
             default_stream))

SIM_BOTH(cuMemcpyDtoD_v2, _ptds,
         TAKES(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
         now(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, default_stream))

/* ---- on a stream ---- */

SIM_BOTH(cuMemcpyAsync, _ptsz,
         TAKES(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
         later(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, hStream, default_stream))

SIM_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
         TAKES(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
         later(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount, hStream,
               default_stream))

SIM_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
         TAKES(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
         later(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount, hStream,
               default_stream))

SIM_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
         TAKES(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
         later(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, hStream,
               default_stream))

/* ---- between contexts ---- */

static CUresult peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                     size_t n_bytes, CUstream stream, CUstream default_stream) {
    struct sim_copy copy = sim_copy_line(dst, SIM_END_DEVICE, src, SIM_END_DEVICE, n_bytes);
    SIM_TRY(sim_copy_between(&copy, dst_context, src_context));
    return sim_copy_do(&copy, stream, default_stream, false);
}

SIM_BOTH(cuMemcpyPeer, _ptds,
         TAKES(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
               CUcontext srcContext, size_t ByteCount),
         peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, default_stream))

SIM_BOTH(cuMemcpyPeerAsync, _ptsz,
         TAKES(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
               CUcontext srcContext, size_t ByteCount, CUstream hStream),
         peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, default_stream))
