/* Memory that the program maps, and that CUSHIM_SPILL takes from the host. */
#include "tests/preload/memory/spill_fixture.h"

static CUmemGenericAllocationHandle create(int device) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(device);
    OK(cuMemCreate(&handle, BLOCK, &properties, 0));
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, int device) {
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, BLOCK, 0, 0, 0));
    OK(cuMemMap(address, BLOCK, 0, handle, 0));
    OK(cuMemSetAccess(address, BLOCK, &access, 1));
    return address;
}

static void unmap(CUdeviceptr address) {
    OK(cuMemUnmap(address, BLOCK));
    OK(cuMemAddressFree(address, BLOCK));
}

TEST(mapped_memory_beyond_the_device_lies_on_the_host_until_it_is_gone) {
    CUmemGenericAllocationHandle again, more;
    CUmemAllocationProp properties = on_device(0);
    fixture_use_device(0);
    fill_device();
    CUmemGenericAllocationHandle handle = create(0);
    expect_spilled(BLOCK);
    ck_assert_uint_eq(free_bytes(), SUM - 60 * MIB - BLOCK);
    CUdeviceptr address = map(handle, 0);
    fixture_fill(address, 7, BLOCK);
    ck_assert(fixture_is_filled(address, 7, BLOCK));
    fixture_launch_write(address + 64, 99, NULL);
    ck_assert_uint_eq(fixture_read(address + 64), 99);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 100)));
    ck_assert_uint_eq(again, handle);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(address, BLOCK));
    expect_spilled(BLOCK);
    OK(cuMemMap(address, BLOCK, 0, handle, 0));
    OK(cuMemRelease(again));
    expect_spilled(BLOCK);
    unmap(address);
    expect_spilled(0);
    for (int i = 0; i < 3; i++)
        again = create(0);
    ANSWERS(cuMemCreate(&more, BLOCK, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemRelease(again));
    expect_spilled(2 * BLOCK);
    create(0);
}

static void map_and_unmap(size_t spilled_bytes, CUdeviceptr to_free) {
    CUmemGenericAllocationHandle handle = create(0);
    CUdeviceptr address = map(handle, 0);
    expect_spilled(spilled_bytes);
    OK(cuMemFree(to_free));
    OK(cuMemRelease(handle));
    unmap(address);
    expect_spilled(0);
}

TEST(what_is_mapped_lies_on_the_device_whenever_that_has_room) {
    fixture_use_device(0);
    for (int i = 0; i < 3; i++) {
        map_and_unmap(BLOCK, fill_device());
        map_and_unmap(0, 0);
    }
}

TEST(questions_about_mapped_memory_answer_as_of_device_memory, .n = 2) {
    CUmemAllocationProp asked = on_device(_i), told;
    CUcontext context;
    unsigned type;
    int ordinal, is_managed = 1;
    void *host, *data[] = {&type, &ordinal, &context, &host};
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    unsigned long long rights = 0;
    fixture_use_device(_i);
    fill_device();
    CUmemGenericAllocationHandle handle = create(_i);
    CUdeviceptr address = map(handle, _i);
    expect_spilled(BLOCK);
    OK(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    ck_assert_mem_eq(&told, &asked, sizeof told);
    OK(cuPointerGetAttributes(4, wanted, data, address + 5));
    ck_assert(type == CU_MEMORYTYPE_DEVICE && ordinal == _i && !context && !host);
    for (int i = 0; i < 3; i++) {
        memset(data[i], 0xff, 4);
        OK(cuPointerGetAttribute(data[i], wanted[i], address + BLOCK - 1));
    }
    ck_assert(type == CU_MEMORYTYPE_DEVICE && ordinal == _i && !context);
    ANSWERS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    ck_assert_int_eq(is_managed & 0xff, 0);
    OK(cuMemGetAccess(&rights, &asked.location, address));
    ck_assert_uint_eq(rights, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemUnmap(address, BLOCK));
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_IF(fixture_is_preloaded(), a_handle_of_mapped_memory_is_not_exported) {
    int shared;
    fixture_use_device(0);
    fill_device();
    ANSWERS(cuMemExportToShareableHandle(&shared, create(0),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_IF(fixture_is_preloaded(), what_host_memory_cannot_do_is_out_of_memory, .n = 2) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = on_device(0);
    fixture_use_device(0);
    fill_device();
    properties.allocFlags.compressionType = _i == 0;
    properties.allocFlags.usage = _i == 1;
    ANSWERS(cuMemCreate(&handle, BLOCK, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    expect_spilled(0);
}

int main(void) {
    return fixture_run("spill_mapped");
}
