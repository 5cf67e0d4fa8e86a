/* NVML of the software device: it agrees with the driver, and missing features are "not
 * supported". */
#include "fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/nvml/nvml.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ck_nvml(call)          ck_assert_int_eq(nvml##call, NVML_SUCCESS)
#define ck_nvml_is(code, call) ck_assert_int_eq(nvml##call, NVML_ERROR_##code)

/* Some functions of absent.def, as programs call them. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, unsigned *rates);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *temperature);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *state);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 unsigned *level);

static nvmlDevice_t device_at(unsigned index) {
    nvmlDevice_t device = NULL;
    ck_nvml(DeviceGetHandleByIndex_v2(index, &device));
    return device;
}

static void begin(void) {
    ck_nvml(Init_v2());
}

TEST(names_addresses_and_uuids_are_the_drivers) {
    begin();
    ck_cuda(cuInit(0));
    unsigned n = 0;
    int n_of_driver;
    ck_nvml(DeviceGetCount_v2(&n));
    ck_cuda(cuDeviceGetCount(&n_of_driver));
    ck_assert_int_eq((int)n, n_of_driver);
    for (unsigned i = 0; i < n; i++) {
        char text[96], of_driver[96];
        struct nvml_pci_v3 pci;
        struct nvml_pci_v2 older;
        nvmlDevice_t device = device_at(i), found = NULL;
        unsigned index = 99;
        int numbers[4];
        ck_nvml(DeviceGetIndex(device, &index));
        ck_assert_uint_eq(index, i);
        ck_nvml(DeviceGetName(device, text, 96));
        ck_cuda(cuDeviceGetName(of_driver, 96, (int)i));
        ck_assert_str_eq(text, of_driver);

        ck_nvml(DeviceGetPciInfo_v3(device, &pci));
        ck_nvml(DeviceGetPciInfo_v2(device, &older));
        ck_cuda(cuDeviceGetPCIBusId(of_driver, 96, (int)i));
        ck_assert_str_eq(pci.bus_id_legacy, of_driver);
        ck_assert_str_eq(pci.bus_id + 4, of_driver);
        ck_assert_str_eq(older.bus_id, of_driver);
        ck_cuda(cuDeviceGetAttribute(&numbers[0], CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, (int)i));
        ck_assert_int_eq(numbers[0], (int)pci.bus);
        ck_nvml(DeviceGetHandleByPciBusId_v2(pci.bus_id, &found));
        ck_assert_ptr_eq(found, device);

        CUuuid uuid;
        ck_nvml(DeviceGetUUID(device, text, 96));
        ck_cuda(cuDeviceGetUuid(&uuid, (int)i));
        for (int byte = 0, at = 4; byte < 16; byte++) {
            char digits[3];
            at += text[at] == '-';
            snprintf(digits, 3, "%02x", (unsigned char)uuid.bytes[byte]);
            ck_assert_int_eq(strncmp(text + at, digits, 2), 0);
            at += 2;
        }
        found = NULL;
        ck_nvml(DeviceGetHandleByUUID(text, &found));
        ck_assert_ptr_eq(found, device);

        ck_nvml(DeviceGetCudaComputeCapability(device, &numbers[0], &numbers[1]));
        ck_cuda(cuDeviceGetAttribute(&numbers[2], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     (int)i));
        ck_cuda(cuDeviceGetAttribute(&numbers[3], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     (int)i));
        ck_assert_int_eq(memcmp(numbers, numbers + 2, 2 * sizeof(int)), 0);
    }
    int version, version_of_driver;
    ck_nvml(SystemGetCudaDriverVersion_v2(&version));
    ck_cuda(cuDriverGetVersion(&version_of_driver));
    ck_assert_int_eq(version, version_of_driver);
}

TEST(memory_figures_are_the_drivers_even_without_a_context) {
    struct nvml_memory memory;
    struct nvml_memory_v2 newer = {.version = NVML_MEMORY_V2};
    size_t n_free, n_total;
    begin();
    nvmlDevice_t device = device_at(0);
    ck_nvml(DeviceGetMemoryInfo(device, &memory));
    ck_assert(memory.used == 0 && memory.free == memory.total && memory.total == 1u << 30);
    fixture_context();
    CUdeviceptr block = fixture_alloc(5 * MIB);
    ck_nvml(DeviceGetMemoryInfo(device, &memory));
    ck_nvml(DeviceGetMemoryInfo_v2(device, &newer));
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert(memory.total == n_total && memory.free == n_free && memory.used == 6 * MIB);
    ck_assert(newer.total == n_total && newer.free == n_free && newer.used == 6 * MIB &&
              newer.reserved == 0);
    ck_nvml(DeviceGetMemoryInfo(device_at(1), &memory));
    ck_assert(memory.used == 0);
    ck_cuda(cuMemFree(block));
    ck_nvml(DeviceGetMemoryInfo(device, &memory));
    ck_assert(memory.used == 0);
    newer.version = sizeof newer | 1u << 24;
    ck_nvml_is(ARGUMENT_VERSION_MISMATCH, DeviceGetMemoryInfo_v2(device, &newer));
}

TEST(a_process_is_on_a_device_while_it_has_a_context) {
    struct nvml_process_v1 older[2];
    struct nvml_process_v2 newer[2];
    unsigned n = 0;
    begin();
    nvmlDevice_t device = device_at(0);
    ck_nvml(DeviceGetComputeRunningProcesses_v3(device, &n, NULL));
    ck_assert_uint_eq(n, 0);
    fixture_context();
    fixture_alloc(3 * MIB);
    ck_nvml_is(INSUFFICIENT_SIZE, DeviceGetComputeRunningProcesses_v3(device, &n, NULL));
    ck_assert_uint_eq(n, 1);
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetComputeRunningProcesses_v3(device, &n, NULL));
    for (n = 2; n != 1;)
        ck_nvml(DeviceGetComputeRunningProcesses(device, &n, older));
    ck_assert(older[0].pid == (unsigned)getpid() && older[0].used_bytes == 4 * MIB);
    for (n = 2; n != 1;)
        ck_nvml(DeviceGetComputeRunningProcesses_v2(device, &n, newer));
    ck_assert(newer[0].pid == (unsigned)getpid() && newer[0].used_bytes == 4 * MIB);
    ck_assert(newer[0].gpu_instance == ~0u && newer[0].compute_instance == ~0u);
    n = 2;
    ck_nvml(DeviceGetComputeRunningProcesses_v3(device_at(1), &n, newer));
    ck_assert_uint_eq(n, 0);
    CUcontext second;
    ck_cuda(cuCtxCreate(&second, NULL, 0, 1));
    n = 2;
    ck_nvml(DeviceGetComputeRunningProcesses_v3(device_at(1), &n, newer));
    ck_assert(n == 1 && newer[0].used_bytes == 0);
    ck_cuda(cuCtxDestroy(second));
    ck_cuda(cuDevicePrimaryCtxRelease(0));
    ck_nvml(DeviceGetComputeRunningProcesses_v3(device, &n, newer));
    ck_assert_uint_eq(n, 0);
    CUcontext again; /* the primary context is revived */
    ck_cuda(cuDevicePrimaryCtxRetain(&again, 0));
    ck_nvml_is(INSUFFICIENT_SIZE, DeviceGetComputeRunningProcesses_v3(device, &n, newer));
    ck_assert_uint_eq(n, 1);
}

TEST(wrong_arguments_are_refused) {
    nvmlDevice_t device = NULL;
    char text[8];
    unsigned n;
    begin();
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetHandleByIndex_v2(2, &device));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetHandleByIndex_v2(0, NULL));
    ck_nvml_is(NOT_FOUND, DeviceGetHandleByUUID("GPU-0", &device));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetHandleByUUID(NULL, &device));
    ck_nvml_is(NOT_FOUND, DeviceGetHandleByPciBusId_v2("0000:33:00.0", &device));
    ck_nvml_is(NOT_FOUND, DeviceGetHandleByPciBusId_v2("0001:10:00.0", &device));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetHandleByPciBusId_v2("here", &device));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetIndex(NULL, &n));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetIndex((nvmlDevice_t)text, &n));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetMemoryInfo(device_at(0), NULL));
    ck_nvml_is(INSUFFICIENT_SIZE, DeviceGetName(device_at(0), text, 8));
    ck_nvml_is(INSUFFICIENT_SIZE, DeviceGetUUID(device_at(0), text, 8));
    ck_nvml_is(INVALID_ARGUMENT, DeviceGetP2PStatus(device_at(0), device_at(0), 0, &n));
    ck_assert_ptr_null(device);
}

TEST(missing_features_are_not_supported) {
    struct nvml_field fields[2] = {{.result = NVML_SUCCESS}, {.result = NVML_SUCCESS}};
    unsigned number = 7;
    begin();
    nvmlDevice_t device = device_at(0);
    ck_nvml(DeviceGetFieldValues(device, 2, fields));
    ck_assert(fields[0].result == NVML_ERROR_NOT_SUPPORTED &&
              fields[1].result == NVML_ERROR_NOT_SUPPORTED);
    ck_nvml_is(NOT_SUPPORTED, DeviceGetUtilizationRates(device, &number));
    ck_nvml_is(NOT_SUPPORTED, DeviceGetTemperature(device, 0, &number));
    ck_nvml_is(NOT_SUPPORTED, DeviceGetNvLinkState(device, 0, &number));
    ck_nvml_is(NOT_SUPPORTED, DeviceGetTopologyCommonAncestor(device, device_at(1), &number));
    ck_assert_uint_eq(number, 7);
}

TEST(devices_reach_each_other_as_the_driver_says) {
    ck_assert_int_eq(setenv("CUSHIM_SIM_UNREACHABLE", "2", 1), 0);
    begin();
    ck_cuda(cuInit(0));
    for (unsigned owner = 0; owner < 2; owner++) {
        int reaches;
        unsigned status, link;
        ck_cuda(cuDeviceCanAccessPeer(&reaches, (int)!owner, (int)owner));
        ck_nvml(DeviceGetP2PStatus(device_at(!owner), device_at(owner), NVML_P2P_READ, &status));
        ck_nvml(DeviceGetP2PStatus(device_at(!owner), device_at(owner), NVML_P2P_NVLINK, &link));
        ck_assert_int_eq(status == NVML_P2P_OK, reaches);
        ck_assert_uint_eq(link, NVML_P2P_NOT_SUPPORTED);
        ck_assert_int_eq(reaches, owner == 0);
    }
}

TEST(every_call_fails_before_init_and_after_shutdown) {
    nvmlDevice_t device;
    unsigned n;
    for (int turn = 0; turn < 2; turn++) {
        ck_nvml_is(UNINITIALIZED, DeviceGetCount_v2(&n));
        ck_nvml_is(UNINITIALIZED, DeviceGetHandleByIndex_v2(0, &device));
        ck_nvml_is(UNINITIALIZED, DeviceGetUtilizationRates(NULL, NULL));
        ck_nvml_is(UNINITIALIZED, Shutdown());
        begin();
        ck_nvml(InitWithFlags(0));
        ck_nvml(Shutdown());
        ck_nvml(DeviceGetCount_v2(&n)); /* initialised twice, shut down once */
        ck_nvml(Shutdown());
    }
    ck_assert_str_eq(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
    ck_assert_str_eq(nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized");
    ck_assert_str_eq(nvmlErrorString((nvmlReturn_t)77), "Unknown Error");
}

TEST(no_query_counts_as_a_driver_call) {
    struct nvml_memory memory;
    begin();
    fixture_context();
    sim_calls_reset();
    ck_nvml(DeviceGetMemoryInfo(device_at(0), &memory));
    ck_assert_uint_eq(sim_calls_total(), 0);
}

SUITE() {
    return tests_run("nvml");
}
