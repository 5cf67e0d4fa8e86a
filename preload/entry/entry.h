/*
 * What the entry points share: whether our heaps may serve now, and the count of what the driver
 * serves.  Requests and frees are in alloc.h and free.h.
 */
#pragma once

#include "preload/state/process.h"
#include "preload/entry/foreign.h"

/* May this thread's allocations be served now?  Not inside a host function, nor in a capture of its
 * own. */
bool cushim_entry_is_open(struct cushim_cuda *cuda);

/* Is no option set that changes what a hit does, or a free of ours?  Call it after the options were
 * read. */
bool cushim_entry_is_plain(void);

/*
 * After an allocation by the driver: count and remember it if it succeeded.  Returns `answer`.
 */
CUresult cushim_entry_note(struct cushim_cuda *cuda, enum cushim_kind kind, CUresult answer,
                           uint64_t address, size_t n_bytes);

/* The same for stream-ordered memory. */
CUresult cushim_entry_note_on(struct cushim_cuda *cuda, CUstream stream, CUresult answer,
                              uint64_t address, size_t n_bytes);

/* Memory that another process made was opened here, or is opened once more: count it once. */
void cushim_entry_note_imported(struct cushim_cuda *cuda, CUdeviceptr address);

/* The same for what the caller describes; without its context, and without its address, if `answer`
 * is a refusal. */
CUresult cushim_entry_note_foreign(const struct cushim_foreign *foreign, CUresult answer);

/* Before and after a free by the driver of memory that is not a heap's. */
bool cushim_entry_forget(uint64_t address, struct cushim_foreign *foreign);
CUresult cushim_entry_forgot(bool was_known, const struct cushim_foreign *foreign, uint64_t address,
                             CUresult answer);

/* What a hook does that destroys what a handle stands for; `call` is the driver's.  If it was not
 * counted, or another interface made it, it is the driver's alone. */
#define CUSHIM_ENTRY_DESTROY(handle, call)                                                         \
    struct cushim_foreign foreign;                                                                 \
    bool was_known = cushim_entry_forget(handle, &foreign);                                        \
    CUresult answer = call;                                                                        \
    return was_known ? cushim_entry_forgot(true, &foreign, handle, answer) : answer

/* An allocation of any kind was refused: was memory of ours given back, so that a retry may help
 * (C12)? */
bool cushim_entry_should_retry(CUresult answer);

/* The answer of a call of the driver's that allocates, which is made again if that may help. */
#define CUSHIM_ENTRY_RETRIED(call)                                                                 \
    __extension__({                                                                                \
        CUresult retried = call;                                                                   \
        if (cushim_entry_should_retry(retried))                                                    \
            retried = call;                                                                        \
        retried;                                                                                   \
    })

/* The same for host memory. */
bool cushim_entry_should_retry_host(CUresult answer);
