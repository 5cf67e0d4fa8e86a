/* Whose a file of a stack is. */
#include "report/library.h"

#include "tests/unit/suite.h"

TEST(each_file_has_its_kind_and_the_name_that_users_know) {
    enum {
        OWN = CUSHIM_LIBRARY_PROGRAM,
        KNOWN = CUSHIM_LIBRARY_PACKAGE,
        ALLOCATOR = CUSHIM_LIBRARY_ALLOCATOR,
        RUNTIME = CUSHIM_LIBRARY_RUNTIME
    };
    static const struct {
        const char *path;
        int kind;
        const char *name;
    } rows[] = {
        {"/srv/train", OWN, ""},
        {"/srv/train.py", OWN, ""},
        {"", OWN, ""},
        {"/srv/libmodel.so.3", OWN, "libmodel"},
        {"/srv/fast.cpython-311-x86_64-linux-gnu.so", OWN, "fast"},
        {"/srv/python_like", OWN, ""},
        {"/srv/python.d/train.py", OWN, ""},
        {"/v/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", KNOWN, "NCCL"},
        {"/v/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12", KNOWN, "cuBLAS"},
        {"/usr/lib/libcudnn_engines_precompiled.so.9", KNOWN, "cuDNN"},
        {"/v/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so", KNOWN, "libtorch"},
        {"/v/lib/python3.12/site-packages/torch/nn/modules/module.py", KNOWN, "torch"},
        {"/v/lib/python3.12/site-packages/jaxlib/libjax_common.so", KNOWN, "jaxlib"},
        {"/v/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so", KNOWN, "jaxlib"},
        {"/usr/lib/python3/dist-packages/cupy/cuda/memory.cpython-311.so", KNOWN, "cupy"},
        {"/v/site-packages/single.py", KNOWN, "single"},
        {"/v/site-packages/torch/lib/libc10_cuda.so", ALLOCATOR, ""},
        {"/lib/x86_64-linux-gnu/libc.so.6", RUNTIME, ""},
        {"/usr/bin/python3.12", RUNTIME, ""},
        {"python3", RUNTIME, ""},
        {"/v/lib/libpython3.13.so.1.0", RUNTIME, ""},
        {"/usr/lib/python3.12/threading.py", RUNTIME, ""},
        {"/usr/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so", RUNTIME, ""},
        {"<frozen runpy>", RUNTIME, ""},
        {"/usr/local/cuda/lib64/libcudart.so.13", RUNTIME, ""},
        {"/x/libcushim-preload.so", RUNTIME, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[CUSHIM_LIBRARY_BYTES];
        int kind = (int)cushim_library_of(rows[i].path, name);
        ck_assert_msg(kind == rows[i].kind && strcmp(name, rows[i].name) == 0, "%s: %d, %s",
                      rows[i].path, kind, name);
    }
}

TEST(a_long_name_is_cut) {
    char name[CUSHIM_LIBRARY_BYTES];
    cushim_library_of("/site-packages/a_package_whose_name_is_longer_than_any_other/x.py", name);
    ck_assert_str_eq(name, "a_package_whose_name_is_longer_");
}

SUITE() {
    return tests_run("library");
}
