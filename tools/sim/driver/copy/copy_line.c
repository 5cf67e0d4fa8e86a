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

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    SIM_ENTER(cuMemcpy);
    return sim_leave(now(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, CU_STREAM_LEGACY));
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    SIM_ENTER(cuMemcpy_ptds);
    return sim_leave(
        now(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    SIM_ENTER(cuMemcpyHtoD_v2);
    return sim_leave(now(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount,
                         CU_STREAM_LEGACY));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    SIM_ENTER(cuMemcpyHtoD_v2_ptds);
    return sim_leave(now(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount,
                         CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_ENTER(cuMemcpyDtoH_v2);
    return sim_leave(now(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount,
                         CU_STREAM_LEGACY));
}

CUresult cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_ENTER(cuMemcpyDtoH_v2_ptds);
    return sim_leave(now(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount,
                         CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_ENTER(cuMemcpyDtoD_v2);
    return sim_leave(
        now(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, CU_STREAM_LEGACY));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_ENTER(cuMemcpyDtoD_v2_ptds);
    return sim_leave(
        now(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, CU_STREAM_PER_THREAD));
}

/* ---- on a stream ---- */

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    SIM_ENTER(cuMemcpyAsync);
    return sim_leave(
        later(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, hStream, CU_STREAM_LEGACY));
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    SIM_ENTER(cuMemcpyAsync_ptsz);
    return sim_leave(later(dst, SIM_END_UNIFIED, src, SIM_END_UNIFIED, ByteCount, hStream,
                           CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                              CUstream hStream) {
    SIM_ENTER(cuMemcpyHtoDAsync_v2);
    return sim_leave(later(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount,
                           hStream, CU_STREAM_LEGACY));
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                   CUstream hStream) {
    SIM_ENTER(cuMemcpyHtoDAsync_v2_ptsz);
    return sim_leave(later(dstDevice, SIM_END_DEVICE, address_of(srcHost), SIM_END_HOST, ByteCount,
                           hStream, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
    SIM_ENTER(cuMemcpyDtoHAsync_v2);
    return sim_leave(later(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount,
                           hStream, CU_STREAM_LEGACY));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
    SIM_ENTER(cuMemcpyDtoHAsync_v2_ptsz);
    return sim_leave(later(address_of(dstHost), SIM_END_HOST, srcDevice, SIM_END_DEVICE, ByteCount,
                           hStream, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
    SIM_ENTER(cuMemcpyDtoDAsync_v2);
    return sim_leave(later(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, hStream,
                           CU_STREAM_LEGACY));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
    SIM_ENTER(cuMemcpyDtoDAsync_v2_ptsz);
    return sim_leave(later(dstDevice, SIM_END_DEVICE, srcDevice, SIM_END_DEVICE, ByteCount, hStream,
                           CU_STREAM_PER_THREAD));
}

/* ---- between contexts ---- */

static CUresult peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                     size_t n_bytes, CUstream stream, CUstream default_stream) {
    struct sim_copy copy = sim_copy_line(dst, SIM_END_DEVICE, src, SIM_END_DEVICE, n_bytes);
    SIM_TRY(sim_copy_between(&copy, dst_context, src_context));
    return sim_copy_do(&copy, stream, default_stream, false);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount) {
    SIM_ENTER(cuMemcpyPeer);
    return sim_leave(
        peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, CU_STREAM_LEGACY));
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount) {
    SIM_ENTER(cuMemcpyPeer_ptds);
    return sim_leave(
        peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    SIM_ENTER(cuMemcpyPeerAsync);
    return sim_leave(
        peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, CU_STREAM_LEGACY));
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    SIM_ENTER(cuMemcpyPeerAsync_ptsz);
    return sim_leave(peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream,
                          CU_STREAM_PER_THREAD));
}
