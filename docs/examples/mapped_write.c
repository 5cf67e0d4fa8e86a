/*
 * Device memory that the CPU writes through a mapping, without a copy by the driver.
 *
 *   cc -o mapped_write mapped_write.c $(pkg-config --cflags --libs cushim)
 *   ./mapped_write kernels.ptx
 *
 * It needs Vulkan: the loader and the graphics part of the driver.  If they are missing, it says
 * what it looked for and ends with 77.  A launch sees data that was written and flushed before it.
 * It prints:
 *
 *   the CPU wrote 1..1000, the kernel read the sum 500500
 */
#include <cushim/cushim.h>

#include "try.h"

enum { N = 1000 };

int main(int argc, char **argv) {
    struct cushim_mapper *mapper;
    enum cushim_status st = cushim_mapper_open(NULL, 0, &mapper);
    if (st == CUSHIM_NOTSUPPORTED) {
        printf("needs Vulkan: %s\n", cushim_last_error());
        return 77;
    }
    TRY(st);

    struct cushim_module *module;
    struct cushim_function *sum;
    TRY(cushim_module_load_file(NULL, argc > 1 ? argv[1] : "kernels.ptx", NULL, &module));
    TRY(cushim_module_function(module, "sum", &sum));

    struct cushim_mapped *mapped;
    void *host;
    cushim_devptr words, result;
    TRY(cushim_mapped_alloc(mapper, N * sizeof(uint32_t), 0, &mapped));
    TRY(cushim_mapped_host(mapped, &host));
    TRY(cushim_mapped_device(mapped, &words));
    TRY(cushim_memory_alloc(NULL, sizeof(uint32_t), &result));

    uint32_t numbers[N], n = N, total = 0;
    for (uint32_t i = 0; i < N; i++)
        numbers[i] = i + 1;
    TRY(cushim_mapped_copy_in(host, numbers, sizeof numbers)); /* or any store through `host` */
    TRY(cushim_mapped_flush(mapped, 0, sizeof numbers));

    const void *args[] = {&result, &words, &n};
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    TRY(cushim_function_launch(sum, &launch, args, 3));
    TRY(cushim_memory_d2h(&total, result, sizeof total));
    CHECK(total == N * (N + 1) / 2);
    printf("the CPU wrote 1..%d, the kernel read the sum %d\n", N, (int)total);

    TRY(cushim_memory_free(result));
    TRY(cushim_mapped_free(mapped));
    TRY(cushim_mapper_close(mapper));
    TRY(cushim_module_unload(module));
    return 0;
}
