/*
 * A kernel from a file, launched through a prepared call.
 *
 *   cc -o ptx_launch ptx_launch.c $(pkg-config --cflags --libs cushim)
 *   ./ptx_launch kernels.ptx            or a cubin, or a fatbin with the kernel in it
 *
 * The format "PfI" lists the kernel's parameters: a pointer, a float, a number of 32 bits.  It is
 * checked against the kernel once; then launches only pack their arguments and allocate nothing.
 * It prints:
 *
 *   1000 floats times 2.5: 0 2.5 5 .. 2497.5
 *   a wrong format is refused: index=1
 */
#include <cushim/cushim.h>
#include <string.h>

#include "try.h"

enum { N = 1000, BLOCK = 256 };

int main(int argc, char **argv) {
    float data[N];
    for (int i = 0; i < N; i++)
        data[i] = (float)i;

    struct cushim_module *module;
    struct cushim_function *scale;
    struct cushim_prepared *call;
    TRY(cushim_module_load_file(NULL, argc > 1 ? argv[1] : "kernels.ptx", NULL, &module));
    TRY(cushim_module_function(module, "scale", &scale));
    TRY(cushim_function_prepare(scale, "PfI", &call));

    cushim_devptr p;
    TRY(cushim_memory_alloc(NULL, sizeof data, &p));
    TRY(cushim_memory_h2d(p, data, sizeof data));

    float factor = 2.5f;
    uint32_t n = N;
    const void *args[] = {&p, &factor, &n};
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    launch.grid[0] = (N + BLOCK - 1) / BLOCK;
    launch.block[0] = BLOCK;
    TRY(cushim_prepared_launch(call, &launch, args));

    TRY(cushim_memory_d2h(data, p, sizeof data));
    for (int i = 0; i < N; i++)
        CHECK(data[i] == (float)i * 2.5f);
    printf("%d floats times 2.5: %g %g %g .. %g\n", N, data[0], data[1], data[2], data[N - 1]);

    struct cushim_prepared *wrong;
    if (cushim_has(CUSHIM_FEATURE_PARAM_INFO)) {
        CHECK(cushim_function_prepare(scale, "PPI", &wrong) == CUSHIM_INVALID);
        CHECK(strstr(cushim_last_error(), "index=1"));
        puts("a wrong format is refused: index=1");
    } else {
        puts("the driver is older than 12.4 and cannot tell a wrong format");
    }

    TRY(cushim_memory_free(p));
    TRY(cushim_prepared_destroy(call));
    TRY(cushim_module_unload(module));
    return 0;
}
