/* The slots of CUSHIM_DRIVER (driver.h), made from cuda/symbols.def: for driver.c alone. */
#pragma once

/* What we ask the driver's own resolver for. */
struct cushim_driver_symbol {
    const char *abi;      /* the exported name; _ptsz and _ptds are the per-thread variants */
    const char *asked_as; /* the name for cuGetProcAddress */
    int since;            /* the version from which that name means this function */
};

typedef void *cushim_driver_find_fn(const struct cushim_driver_symbol *row, const void *cookie);

/* Fill all slots, with NULL if a function is not found, and cushim_driver_cuda from them. */
void cushim_driver_slots_fill(cushim_driver_find_fn *find, const void *cookie);

/* What the slot of an exported name has, or NULL. */
void *cushim_driver_slots_find(const char *name);
