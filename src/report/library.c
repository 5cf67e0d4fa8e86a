#include "report/library.h"

#include <stdio.h>
#include <string.h>

/* How the names of their files begin. */
static const char *const runtimes[] = {
    "libcushim", "libcuda.so",   "libcudart",   "libc.so",   "libm.so", "libdl.so", "libpthread.so",
    "ld-linux",  "libstdc++.so", "libgcc_s.so", "libpython", "libffi",  "_ctypes.", NULL};
static const char *const allocators[] = {"libc10", "librmm", NULL};
static const struct {
    const char *begin, *name;
} packages[] = {
    {"libnccl", "NCCL"},
    {"libcublas", "cuBLAS"},
    {"libcudnn", "cuDNN"},
    {"libcufft", "cuFFT"},
    {"libcusolver", "cuSOLVER"},
    {"libcusparse", "cuSPARSE"},
    {"libcurand", "cuRAND"},
    {"libcutensor", "cuTENSOR"},
    {"libnvshmem", "NVSHMEM"},
    {"libnvinfer", "TensorRT"},
    {"libtorch", "libtorch"},
    {"libjax", "jaxlib"},
    {"xla_extension", "jaxlib"},
    {"xla_cuda_plugin", "jaxlib"},
    {"libtensorflow", "TensorFlow"},
    {"libonnxruntime", "ONNX Runtime"},
    {"libggml", "ggml"},
};

bool cushim_library_is_one_of(const char *path, const char *const begins[]) {
    while (*begins && strncmp(basename(path), *begins, strlen(*begins)) != 0)
        begins++;
    return *begins;
}

/* Below a folder that Python installs packages in: "cupy" of ".../site-packages/cupy/core.py". */
static bool is_installed(const char *path, char name[CUSHIM_LIBRARY_BYTES]) {
    const char *package = strstr(path, "-packages/"), *at = package;
    while (at && (at = strstr(at + 1, "-packages/"))) /* of one in another the inner one */
        package = at;
    if (!package || package - path < 4)
        return false;
    package += sizeof "-packages/" - 1;
    snprintf(name, CUSHIM_LIBRARY_BYTES, "%.*s", (int)strcspn(package, "/."), package);
    return true;
}

/* The interpreter as a program, code that has no file, and the standard library. */
static bool is_of_python_itself(const char *path, const char *file) {
    static const char python[] = "python";
    const char *lib = strstr(path, "/lib/python3"), *version = file + sizeof python - 1;
    return *path == '<' || (lib && !strstr(lib, "-packages/")) ||
           (strncmp(file, python, sizeof python - 1) == 0 &&
            !version[strspn(version, "0123456789.")]);
}

enum cushim_library_kind cushim_library_of(const char *path, char name[CUSHIM_LIBRARY_BYTES]) {
    const char *file = basename(path);
    bool is_script = strstr(file, ".py") != NULL;
    *name = 0;
    if (!is_script && cushim_library_is_one_of(file, runtimes))
        return CUSHIM_LIBRARY_RUNTIME;
    if (!is_script && cushim_library_is_one_of(file, allocators))
        return CUSHIM_LIBRARY_ALLOCATOR;
    for (size_t i = 0; !is_script && i < sizeof packages / sizeof *packages; i++) {
        if (strncmp(file, packages[i].begin, strlen(packages[i].begin)) != 0)
            continue;
        strcpy(name, packages[i].name);
        return CUSHIM_LIBRARY_PACKAGE;
    }
    if (is_installed(path, name))
        return CUSHIM_LIBRARY_PACKAGE;
    if (is_of_python_itself(path, file))
        return CUSHIM_LIBRARY_RUNTIME;
    if (strstr(file, ".so") && !is_script)
        snprintf(name, CUSHIM_LIBRARY_BYTES, "%.*s", (int)strcspn(file, "."), file);
    return CUSHIM_LIBRARY_PROGRAM;
}
