/* Devices as NVML reports them: which there are, also without a context, and which process has
 * them. */
#include "device.h"
#include "share.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/core/model.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/sim.h"

#include <stdio.h>
#include <string.h>

void sim_device_name(char *name, size_t n_bytes) {
    snprintf(name, n_bytes, "cushim software device");
}

void sim_device_uuid(int number, CUuuid *uuid) {
    memcpy(uuid->bytes, "cushim-software", 16);
    uuid->bytes[15] = (char)number;
}

int sim_device_bus(int number) {
    return 0x10 + number;
}

int sim_device_look(int ordinal, struct sim_device_look *look) {
    if (ordinal < 0 || ordinal >= (int)sim_options()->devices)
        return 0;
    sim_device_name(look->name, sizeof look->name);
    sim_device_uuid(ordinal, &look->uuid);
    look->bus = sim_device_bus(ordinal);
    look->capability = sim_model().capability;
    look->is_reachable = !(sim_options()->unreachable >> ordinal & 1);
    look->driver_version = SIM_DRIVER_VERSION;
    look->total_bytes = sim_device_pages() * SIM_PAGE_BYTES;
    look->used_bytes = sim_used_bytes(ordinal);
    return 1;
}

unsigned sim_device_processes(int ordinal, struct sim_process *processes, unsigned n) {
    struct sim_share shares[SIM_MAX_PROCESSES];
    if (ordinal < 0 || ordinal >= SIM_MAX_DEVICES)
        return 0;
    pthread_mutex_lock(&sim_lock);
    unsigned n_found = sim_share_processes(ordinal, shares, SIM_MAX_PROCESSES);
    pthread_mutex_unlock(&sim_lock);
    for (unsigned i = 0; i < n_found && i < n; i++)
        processes[i] = (struct sim_process){shares[i].pid, shares[i].n_pages * SIM_PAGE_BYTES};
    return n_found;
}
