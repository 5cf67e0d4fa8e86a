/*
 * Stream-ordered memory: which device owns it, and CUSHIM_ASYNC_KEEP, which is how much freed
 * memory the driver's own pools keep for reuse.
 *
 * By default a pool keeps nothing beyond the next synchronisation, so a program that allocates and
 * synchronises in turn asks the operating system each time.  If the program never set the release
 * threshold of a pool, we set it: the default pool's at the first request on its device, another's
 * when it is created.  The program reads the 0 that it left there.  With `auto` the pools keep
 * all, and we have the driver give it back as heaps do: when memory is out or a limit is met, at
 * the first call after a second without a request or free, and when more is idle than half of what
 * would be free.
 *
 * What pools have reserved beyond what lives is counted as idle, whoever set the threshold, as of
 * the last look: a tenth of a second apart while the program asks and frees.
 */
#pragma once

#include "preload/state/process.h"

/* Memory of a device was requested in stream order. */
void cushim_async_keep(struct cushim_cuda *cuda, CUdevice device);

/* The program made a pool on a device. */
void cushim_async_made(struct cushim_cuda *cuda, CUmemoryPool pool, int device);

/* The program destroys a pool, or sets its release threshold, which then is the program's. */
CUresult cushim_async_destroy(struct cushim_cuda *cuda, CUmemoryPool pool);
CUresult cushim_async_set_threshold(struct cushim_cuda *cuda, CUmemoryPool pool, void *value);

/* Is its threshold ours? */
bool cushim_async_is_kept(CUmemoryPool pool);

/* Memory was freed in stream order. */
void cushim_async_note_use(void);

/* Count what pools hold now. */
void cushim_async_look(void);

/* Pools give back all idle memory; the second only after a second without use.  Returns the
 * bytes. */
size_t cushim_async_give_back(void);
void cushim_async_give_back_stale(void);

/* A context is about to go, and perhaps pools with it; or the driver is gone.  What is requested
 * afterwards is as the first request. */
void cushim_async_forget(bool is_driver_there);

/* What pools keep idle on a device, which would be free without cushim. */
size_t cushim_async_idle_bytes(struct cushim_cuda *cuda, CUdevice device);

/* The owner of the memory that allocations on a stream get. */
struct cushim_async_owner {
    CUcontext context;
    CUdevice device;
};

/*
 * Find that owner.  It asks the driver, unless the thread's last question was about the same
 * stream.  False: the driver does not say.
 */
bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner);

/* A stream was destroyed.  Forget what was found, because another stream may get its handle. */
void cushim_async_forget_streams(void);
