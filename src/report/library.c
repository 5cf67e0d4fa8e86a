#include "report/library.h"

#include <stdio.h>
#include <string.h>

/* How the name of a file begins.  NULL: of no package. */
static const struct row {
    const char *begin;
    enum cushim_library_kind kind;
    const char *name;
} rows[] = {
    {"libcushim", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libcuda.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libcudart", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libc.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libm.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libdl.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libpthread.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"ld-linux", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libstdc++.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libgcc_s.so", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libpython", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libffi", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"_ctypes.", CUSHIM_LIBRARY_RUNTIME, NULL},
    {"libc10", CUSHIM_LIBRARY_ALLOCATOR, NULL},
    {"librmm", CUSHIM_LIBRARY_ALLOCATOR, NULL},
    {"libnccl", CUSHIM_LIBRARY_PACKAGE, "NCCL"},
    {"libcublas", CUSHIM_LIBRARY_PACKAGE, "cuBLAS"},
    {"libcudnn", CUSHIM_LIBRARY_PACKAGE, "cuDNN"},
    {"libcufft", CUSHIM_LIBRARY_PACKAGE, "cuFFT"},
    {"libcusolver", CUSHIM_LIBRARY_PACKAGE, "cuSOLVER"},
    {"libcusparse", CUSHIM_LIBRARY_PACKAGE, "cuSPARSE"},
    {"libcurand", CUSHIM_LIBRARY_PACKAGE, "cuRAND"},
    {"libcutensor", CUSHIM_LIBRARY_PACKAGE, "cuTENSOR"},
    {"libnvshmem", CUSHIM_LIBRARY_PACKAGE, "NVSHMEM"},
    {"libnvinfer", CUSHIM_LIBRARY_PACKAGE, "TensorRT"},
    {"libtorch", CUSHIM_LIBRARY_PACKAGE, "libtorch"},
    {"libjax", CUSHIM_LIBRARY_PACKAGE, "jaxlib"},
    {"xla_extension", CUSHIM_LIBRARY_PACKAGE, "jaxlib"},
    {"xla_cuda_plugin", CUSHIM_LIBRARY_PACKAGE, "jaxlib"},
    {"libtensorflow", CUSHIM_LIBRARY_PACKAGE, "TensorFlow"},
    {"libonnxruntime", CUSHIM_LIBRARY_PACKAGE, "ONNX Runtime"},
    {"libggml", CUSHIM_LIBRARY_PACKAGE, "ggml"},
};

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
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    bool is_script = strstr(file, ".py") != NULL;
    *name = 0;
    for (size_t i = 0; !is_script && i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(file, rows[i].begin, strlen(rows[i].begin)) != 0)
            continue;
        snprintf(name, CUSHIM_LIBRARY_BYTES, "%s", rows[i].name ? rows[i].name : "");
        return rows[i].kind;
    }
    if (is_installed(path, name))
        return CUSHIM_LIBRARY_PACKAGE;
    if (is_of_python_itself(path, file))
        return CUSHIM_LIBRARY_RUNTIME;
    if (strstr(file, ".so") && !is_script)
        snprintf(name, CUSHIM_LIBRARY_BYTES, "%.*s", (int)strcspn(file, "."), file);
    return CUSHIM_LIBRARY_PROGRAM;
}
