/*
 * Requests and frees of the program, from the entry points of driver and runtime: translated for
 * the heap once, and its answer into the driver's codes.
 *
 * What the heap cannot or must not serve goes to the driver as it came, is counted, and behaves as
 * natively.
 */
#ifndef CUSHIM_PRELOAD_ENTRY_H
#define CUSHIM_PRELOAD_ENTRY_H

#include "preload/state/process.h"
#include "preload/entry/foreign.h"

/* May this thread's allocations be served now?  Not inside a host function, nor in a capture of its
 * own. */
bool cushim_entry_is_open(struct cushim_cuda *cuda);

/* Is no option set that changes what a hit does, or a free of ours?  Once they were read. */
bool cushim_entry_is_plain(void);

/* cuMemAlloc_v2, whatever serves it. */
CUresult cushim_entry_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes);

/* The same where it takes no driver call; false: nothing was done, go the whole way. */
bool cushim_entry_alloc_hit(struct cushim_cuda *cuda, CUdeviceptr *address, size_t n_bytes);

/* cuMemFree_v2, or cuMemFreeHost for pinned memory. */
enum cushim_entry_free_fn { CUSHIM_FREE, CUSHIM_FREE_HOST };

/* The same, whoever's memory it is. */
CUresult cushim_entry_free(struct cushim_cuda *cuda, CUdeviceptr address,
                           enum cushim_entry_free_fn entry);

/*
 * The same for a live block of ours; false: it is not one, or the driver refused, and nothing was
 * done: go the whole way, which also sets the runtime's last error.
 */
bool cushim_entry_free_live(CUdeviceptr address, enum cushim_entry_free_fn entry);

/* What a free says: once the driver is gone, and with it all memory, nothing is left to free (D6).
 */
static inline CUresult cushim_entry_freed(CUresult answer) {
    return answer == CUDA_ERROR_DEINITIALIZED ? CUDA_SUCCESS : answer;
}

/* cuMemFreeAsync for addresses of ours; false: foreign, nothing was done. */
bool cushim_entry_free_on(struct cushim_cuda *cuda, CUdeviceptr address, CUstream stream,
                          CUresult *answer);

/*
 * After a native allocation: count and remember it where it succeeded.  Returns `answer`.
 */
CUresult cushim_entry_note(struct cushim_cuda *cuda, enum cushim_kind kind, CUresult answer,
                           uint64_t address, size_t n_bytes);

/* The same for memory in the order of a stream. */
CUresult cushim_entry_note_on(struct cushim_cuda *cuda, CUstream stream, CUresult answer,
                              uint64_t address, size_t n_bytes);

/* Before and after a native free of memory that is not the heap's. */
bool cushim_entry_forget(uint64_t address, struct cushim_foreign *foreign);
CUresult cushim_entry_forgot(bool was_known, const struct cushim_foreign *foreign, uint64_t address,
                             CUresult answer);

/* An allocation of any kind was refused: was memory of ours given back, so that a retry may help
 * (C12)? */
bool cushim_entry_should_retry(CUresult answer);

/* The same for the host's memory. */
bool cushim_entry_should_retry_host(CUresult answer);

#endif
