/* CUDA_VISIBLE_DEVICES: which devices are visible, and in which order. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

/* The first 15 bytes of a UUID, the same for all devices: "cushim-software". */
#define UUID "GPU-63757368-696d-2d73-6f66-7477617265"

static const struct {
    const char *list;
    int n, numbers[4];
} rows[] = {
    {NULL, 3, {0, 1, 2}},
    {"1", 1, {1}},
    {"2,0", 2, {2, 0}},
    {" 2 , 1", 2, {2, 1}},
    {UUID "02", 1, {2}},
    {UUID "01,0", 2, {1, 0}},
    {"gpu-63757368-696D-2D73-6F66-747761726502", 1, {2}},
    {"GPU-6375", 0, {0}}, /* a prefix of several UUIDs */
    {"", 0, {0}},
    {"-1", 0, {0}},
    {"1,-1,0", 1, {1}},
    {"0,0", 0, {0}},
    {"0," UUID "00", 0, {0}},
    {"1,7,0", 1, {1}},
    {"1,none,0", 1, {1}},
    {"0,MIG-63757368-696d-2d73-6f66-747761726500", 1, {0}},
    {"MIG-GPU-63757368-696d-2d73-6f66-747761726500/1/0", 0, {0}},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void see(int row) {
    setenv("CUSHIM_SIM_DEVICES", "3", 1);
    if (rows[row].list)
        setenv("CUDA_VISIBLE_DEVICES", rows[row].list, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(a_list_chooses_and_orders_devices, .n = N_ROWS) {
    int n = -1;
    see(_i);
    ck_cuda_is(cuInit(0), rows[_i].n ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
    if (rows[_i].n)
        ck_cuda(cuDeviceGetCount(&n));
    for (int i = 0; i < rows[_i].n; i++) {
        CUuuid uuid;
        int bus;
        ck_cuda(cuDeviceGetUuid(&uuid, i));
        ck_assert_int_eq(uuid.bytes[15], rows[_i].numbers[i]);
        ck_cuda(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        ck_assert_int_eq(bus, 0x10 + rows[_i].numbers[i]);
    }
    ck_assert_int_eq(n, rows[_i].n ? rows[_i].n : -1);
}

TEST(memory_belongs_to_the_chosen_device) {
    struct sim_device_look look;
    see(2);
    fixture_context();
    fixture_alloc(4 * MIB);
    ck_assert_int_eq(sim_device_look(0, &look), 1);
    ck_assert_uint_eq(look.used_bytes, 0);
    ck_assert_int_eq(sim_device_look(2, &look), 1);
    ck_assert_uint_ge(look.used_bytes, 4 * MIB);
}

SUITE() {
    return tests_run("sim visible");
}
