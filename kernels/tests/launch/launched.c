#include "kernels/tests/launch/launched.h"

#include <stdio.h>

static struct cushim_kernel_family *family_of(const void *image) {
    static struct cushim_kernel_family *const families[] = {
#define FAMILY(name) &cushim_family_##name,
#include "kernels/launch/families.def"
#undef FAMILY
    };
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->image == image)
            return families[i];
    }
    ck_abort_msg("an image of no family");
    return NULL;
}

/* In place of a fatbin, an image that names its kernels. */
static CUresult load_names(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned n_options, CUlibraryOption *library_options,
                           void **library_values, unsigned n_library_options) {
    static char text[CUSHIM_FAMILY_MOST_KERNELS * 80];
    const struct cushim_kernel_family *family = family_of(code);
    int n = snprintf(text, sizeof text, "%s\n", SIM_MODULE_IMAGE);
    for (unsigned i = 0; i < family->n_kernels; i++) {
        if (!family->kernels[i].name)
            continue;
        n += snprintf(text + n, sizeof text - (size_t)n, ".entry %s\n", family->kernels[i].name);
        ck_assert_int_lt(n, (int)sizeof text);
    }
    return SIM(cuLibraryLoadData)(library, text, options, values, n_options, library_options,
                                  library_values, n_library_options);
}

struct launch launched;
char all_launched[2048];

void launched_clear(void) {
    all_launched[0] = '\0';
}

static void keep(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes) {
    const char *name = "";
    ck_assert_int_eq(SIM(cuFuncGetName)(&name, function), CUDA_SUCCESS);
    launched =
        (struct launch){.grid = grid, .block = block, .cluster = 1, .shared_bytes = shared_bytes};
    snprintf(launched.kernel, sizeof launched.kernel, "%s", name);
    size_t n = strlen(all_launched);
    if (n + strlen(name) + 2 < sizeof all_launched)
        snprintf(all_launched + n, sizeof all_launched - n, "%s ", name);
}

static CUresult look(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     CUstream stream, void **params, void **extra) {
    keep(function, grid_x, block_x, shared_bytes);
    return SIM(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                               shared_bytes, stream, params, extra);
}

static CUresult look_closer(const CUlaunchConfig *config, CUfunction function, void **params,
                            void **extra) {
    keep(function, config->gridDimX, config->blockDimX, config->sharedMemBytes);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            launched.cluster = config->attrs[i].value.clusterDim.x;
    }
    return SIM(cuLaunchKernelEx)(config, function, params, extra);
}

void launched_begin(const char *capability) {
    setenv("CUSHIM_SIM_CAPABILITY", capability, 1);
    fixture_force("90");
    fixture_context(0);
    ck_ok(cushim_driver_use("test"));
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), load_names);
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernel), look);
    atomic_store(&CUSHIM_DRIVER(cuLaunchKernelEx), look_closer);
}
