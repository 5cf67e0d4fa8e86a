/*
 * The names of CUDA 12's runtime for what CUDA 13's headers declare; included after them.
 *
 * The sources are written against CUDA 13.  If CUDA 12 has the same signature under a later
 * revision's name, that name is exported; if it has none, ours stays inside.  abi12.c has the
 * signatures that only CUDA 12 has.
 */
#pragma once

#define NAMED(name, exported) extern __typeof__(name) name __asm__(exported);
NAMED(cudaGraphAddDependencies, "cudaGraphAddDependencies_v2")
NAMED(cudaGraphAddNode, "cudaGraphAddNode_v2")
NAMED(cudaGraphGetEdges, "cudaGraphGetEdges_v2")
NAMED(cudaGraphNodeGetDependencies, "cudaGraphNodeGetDependencies_v2")
NAMED(cudaGraphNodeGetDependentNodes, "cudaGraphNodeGetDependentNodes_v2")
NAMED(cudaGraphRemoveDependencies, "cudaGraphRemoveDependencies_v2")
NAMED(cudaMemAdvise, "cudaMemAdvise_v2")
NAMED(cudaMemPrefetchAsync, "cudaMemPrefetchAsync_v2")
NAMED(cudaMemPrefetchAsync_ptsz, "cudaMemPrefetchAsync_v2_ptsz")
NAMED(cudaSignalExternalSemaphoresAsync, "cudaSignalExternalSemaphoresAsync_v2")
NAMED(cudaSignalExternalSemaphoresAsync_ptsz, "cudaSignalExternalSemaphoresAsync_v2_ptsz")
NAMED(cudaStreamGetCaptureInfo, "cudaStreamGetCaptureInfo_v3")
NAMED(cudaStreamGetCaptureInfo_ptsz, "cudaStreamGetCaptureInfo_v3_ptsz")
NAMED(cudaStreamUpdateCaptureDependencies, "cudaStreamUpdateCaptureDependencies_v2")
NAMED(cudaStreamUpdateCaptureDependencies_ptsz, "cudaStreamUpdateCaptureDependencies_v2_ptsz")
NAMED(cudaWaitExternalSemaphoresAsync, "cudaWaitExternalSemaphoresAsync_v2")
NAMED(cudaWaitExternalSemaphoresAsync_ptsz, "cudaWaitExternalSemaphoresAsync_v2_ptsz")
NAMED(cudaExternalMemoryGetMappedBuffer, "simrt_13_cudaExternalMemoryGetMappedBuffer")
NAMED(cudaGetDeviceProperties, "simrt_13_cudaGetDeviceProperties")
NAMED(cudaImportExternalMemory, "simrt_13_cudaImportExternalMemory")
NAMED(cudaMemcpy3DBatchAsync, "simrt_13_cudaMemcpy3DBatchAsync")
NAMED(cudaMemcpy3DBatchAsync_ptsz, "simrt_13_cudaMemcpy3DBatchAsync_ptsz")
NAMED(cudaMemcpyBatchAsync, "simrt_13_cudaMemcpyBatchAsync")
NAMED(cudaMemcpyBatchAsync_ptsz, "simrt_13_cudaMemcpyBatchAsync_ptsz")
NAMED(cudaPointerGetAttributes, "simrt_13_cudaPointerGetAttributes")
#undef NAMED
