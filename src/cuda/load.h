/*
 * Filling the tables: one loop over symbols.def, with any function that turns a name into an
 * address.
 *
 * The preload reads the symbol table of the loaded object, a linked library asks dlsym, a test
 * gives fakes.  Filling twice is harmless.  A name that is not found leaves NULL in its slot,
 * whatever an earlier library had there.
 */
#pragma once

#include "cuda/types.h"
#include "cushim/status.h"

/* The address of `name`, or NULL. */
typedef void *cushim_cuda_find_fn(const char *name, void *cookie);

/**
 * Fill the driver's table.
 * @param cuda     the table; slots are written one by one, atomically
 * @param find     called once for each row
 * @param cookie   handed to find
 * @param missing  may be NULL; the first REQUIRED name that was not found, or NULL; static
 * @return CUSHIM_OK | CUSHIM_NOSYM (a REQUIRED row is missing; the others are filled)
 * Threads  any, at once; takes no lock
 */
enum cushim_status cushim_cuda_load(struct cushim_cuda *cuda, cushim_cuda_find_fn *find,
                                    void *cookie, const char **missing);

/* An empty table of the driver's, for callers that do not know its slots; NULL: no memory. */
struct cushim_cuda *cushim_cuda_create(void);

/* The same for the runtime's table. */
enum cushim_status cushim_cudart_load(struct cushim_cudart *cudart, cushim_cuda_find_fn *find,
                                      void *cookie);

/* The first REQUIRED name of the driver that is not found, static; NULL if all are. */
const char *cushim_cuda_missing(cushim_cuda_find_fn *find, void *cookie);
