/*
 * NVML, as far as limits and the measure of contexts need it: the library that the program has
 * loaded, or with CUSHIM_LIMIT_COUNTS=all, sites or a recording the one that we load.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

enum { CUSHIM_NVML_UUID_BYTES = 96 };

/* Put the address of NVML's own function into the pointer at `function`; false: it has none. */
bool cushim_nvml_find(const char *name, void *function);

/* NVML's text for a UUID of CUDA's. */
void cushim_nvml_write_uuid(char text[CUSHIM_NVML_UUID_BYTES], const CUuuid *uuid);

/* What this process has of a device, all told; false: NVML does not say. */
bool cushim_nvml_used_bytes(const CUuuid *uuid, uint64_t *n_bytes);

/* What is in use of a device, by all. */
bool cushim_nvml_device_bytes(const CUuuid *uuid, uint64_t *n_bytes);
