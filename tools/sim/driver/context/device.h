/*
 * A device: some memory, a primary context, two pools.  cuInit makes the devices, and they never
 * end.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/memory/space.h"

#include <stdbool.h>
#include <stddef.h>

/* The unit of a device's memory. */
#define SIM_PAGE_BYTES ((size_t)2 << 20)

struct sim_context;
struct sim_pool;

enum { SIM_MAX_DEVICES = 16 };

/* In place of a device's number: the host memory that cuMemCreate makes. */
enum { SIM_HOST = SIM_MAX_DEVICES, SIM_PLACES };

struct sim_device {
    CUdevice ordinal;
    int number;     /* among all devices, visible or not: NVML's index */
    size_t n_pages; /* of memory */
    struct sim_space space;
    uint8_t *was_left;           /* by page of the space: internal.h; NULL: none yet */
    struct sim_context *primary; /* made by the first retain, never freed */
    unsigned n_primary_retains;
    unsigned primary_flags;
    struct sim_pool *default_pool;
    struct sim_pool *pool; /* the pool of cuMemAllocAsync */
};

/* cuInit calls it once to make them all. */
CUresult sim_devices_init(void);

int sim_devices_count(void);

/* NULL: no such device. */
struct sim_device *sim_device_at(CUdevice ordinal);

/* Pages of memory of each, also before there are any. */
size_t sim_device_pages(void);

/* The name that the driver and NVML give it. */
void sim_device_name(char *name, size_t n_bytes);
void sim_device_uuid(int number, CUuuid *uuid);
int sim_device_bus(int number); /* one bus each, slot 0 */
#define SIM_DRIVER_VERSION 13000

/* Can it reach memory of the other one (cuDeviceCanAccessPeer)? */
bool sim_device_reaches(const struct sim_device *device, const struct sim_device *owner);

/* The device whose range of addresses contains this, or NULL. */
struct sim_device *sim_device_of(const void *address);

/* Pages of memory, only as a number, for every kind of allocation; false if there are not that many
 * left after pools gave back their idle ones.  The rest is what no process has taken. */
bool sim_device_charge(struct sim_device *device, size_t n_pages);
void sim_device_refund(struct sim_device *device, size_t n_pages);
size_t sim_device_pages_left(const struct sim_device *device);
