/*
 * Images of a GPU, as far as the device reads them: kernels, their parameters, variables.  The
 * cubin is built here in the layout of nvcc 13.0, so that a test knows its content.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_BYTES = 8192,
    SHARED = 256,
    RESERVED = 1024, /* added to the size of a cubin for 9.0 */
};

/* Sections of the cubin, by name. */
enum section { NONE, NAMES, STRINGS, SYMBOLS, INFO, INFO_OF_KERNEL, SHARED_OF_KERNEL, DATA, ZEROS };
enum { N_SECTIONS = ZEROS + 1 };

struct image {
    _Alignas(8) char bytes[MOST_BYTES];
    size_t n_bytes;
};

static size_t put(struct image *image, const void *bytes, size_t n) {
    size_t at = image->n_bytes;
    memcpy(image->bytes + at, bytes, n);
    image->n_bytes = (at + n + 7) / 8 * 8;
    return at;
}

static void put_section(struct image *image, Elf64_Shdr *section, unsigned type, const void *bytes,
                        size_t n) {
    section->sh_type = type;
    section->sh_offset = type == SHT_NOBITS ? image->n_bytes : put(image, bytes, n);
    section->sh_size = n;
}

/* A record of .nv.info has a form, an attribute, a size, and words. */
#define RECORD(attribute, ...)                                                                     \
    0x04 | (attribute) << 8 | sizeof((uint32_t[]){__VA_ARGS__}) << 16, __VA_ARGS__

/* The kernel `work` (float *, char, double, struct of 12 bytes), and variables of 4 and 40 bytes.
 */
static struct image cubin(void) {
    static const char names[] =
        "\0.nv.info\0.nv.info.work\0.nv.shared.work\0.nv.global.init\0.nv.global";
    static const char strings[] = "\0work\0helper\0counter\0zeros";
    static const uint32_t info[] = {RECORD(0x2f, 1, 18), RECORD(0x11, 1, 1200), RECORD(0x11, 2, 8)};
    static const uint32_t of_kernel[] = {RECORD(0x17, 0, 3 | 24u << 16, 12u << 18),
                                         RECORD(0x17, 0, 2 | 16u << 16, 8u << 18),
                                         RECORD(0x17, 0, 1 | 8u << 16, 1u << 18),
                                         RECORD(0x17, 0, 0 | 0u << 16, 8u << 18),
                                         RECORD(0x05, 64, 4, 1),
                                         0x0203 | 0x7u << 16};
    static const uint32_t data[] = {99, 5};
    const Elf64_Sym symbols[] = {
        {0},
        {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, INFO, 0, 128},
        {6, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, INFO, 0, 128}, /* no entry point */
        {13, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 0, DATA, 4, 4},
        {21, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 0, ZEROS, 0, 40},
    };
    Elf64_Shdr sections[N_SECTIONS] = {{0}};
    Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                       .e_machine = 190,
                       .e_flags = 0x06005a04,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = N_SECTIONS,
                       .e_shstrndx = NAMES};
    struct image image = {.n_bytes = 0};
    put(&image, &head, sizeof head);
    put_section(&image, &sections[NAMES], SHT_STRTAB, names, sizeof names);
    put_section(&image, &sections[STRINGS], SHT_STRTAB, strings, sizeof strings);
    put_section(&image, &sections[SYMBOLS], SHT_SYMTAB, symbols, sizeof symbols);
    put_section(&image, &sections[INFO], SHT_PROGBITS, info, sizeof info);
    put_section(&image, &sections[INFO_OF_KERNEL], SHT_PROGBITS, of_kernel, sizeof of_kernel);
    put_section(&image, &sections[SHARED_OF_KERNEL], SHT_NOBITS, NULL, SHARED + RESERVED);
    put_section(&image, &sections[DATA], SHT_PROGBITS, data, sizeof data);
    put_section(&image, &sections[ZEROS], SHT_NOBITS, NULL, 40);
    const size_t name_of[N_SECTIONS] = {
        [INFO] = 1, [INFO_OF_KERNEL] = 10, [SHARED_OF_KERNEL] = 24, [DATA] = 40, [ZEROS] = 56};
    for (int i = 0; i < N_SECTIONS; i++)
        sections[i].sh_name = (Elf64_Word)name_of[i];
    sections[SYMBOLS].sh_link = STRINGS;
    head.e_shoff = put(&image, sections, sizeof sections);
    memcpy(image.bytes, &head, sizeof head);
    return image;
}

/* ---- fatbins ---- */

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t n_bytes;
    uint32_t packed_bytes, unread[2], capability, unread_too[2];
    uint64_t flags, unread_last, unpacked_bytes;
};

enum { PTX = 1, CUBIN = 2, PLAIN = 0, LZ4 = 0x2000, ZSTD = 0x8000 };

static void begin_fatbin(struct image *fatbin) {
    const uint32_t head[] = {0xba55ed50, 16u << 16 | 1, 0, 0};
    fatbin->n_bytes = 0;
    put(fatbin, head, sizeof head);
}

static void put_entry(struct image *fatbin, int kind, unsigned capability, uint64_t flags,
                      struct image content, size_t unpacked_bytes) {
    struct entry entry = {.kind = (uint16_t)kind,
                          .version = 0x101,
                          .header_bytes = sizeof entry,
                          .n_bytes = (content.n_bytes + 7) / 8 * 8,
                          .packed_bytes = (uint32_t)content.n_bytes,
                          .capability = capability,
                          .flags = flags,
                          .unpacked_bytes = unpacked_bytes};
    put(fatbin, &entry, sizeof entry);
    put(fatbin, content.bytes, content.n_bytes);
    uint64_t n = fatbin->n_bytes - 16;
    memcpy(fatbin->bytes + 8, &n, sizeof n);
}

static struct image text_of(const char *text) {
    struct image image = {.n_bytes = strlen(text) + 1};
    memcpy(image.bytes, text, image.n_bytes);
    return image;
}

/* Only literals; the last 16 bytes are a match if they are zeros. */
static struct image packed_by_lz4(struct image plain) {
    struct image packed = {.n_bytes = 0};
    size_t n_literals = plain.n_bytes, n = 0;
    packed.bytes[n++] = (char)0xf0;
    for (n_literals -= 15; n_literals >= 255; n_literals -= 255)
        packed.bytes[n++] = (char)255;
    packed.bytes[n++] = (char)n_literals;
    memcpy(packed.bytes + n, plain.bytes, plain.n_bytes);
    packed.n_bytes = n + plain.n_bytes;
    return packed;
}

/* ---- reading images ---- */

static CUmodule load(const void *image) {
    CUmodule module;
    setenv("CUSHIM_SIM_KERNELS", "skip", 1);
    fixture_context();
    ck_cuda(cuModuleLoadData(&module, image));
    return module;
}

static int attribute_of(CUfunction function, CUfunction_attribute attribute) {
    int value;
    ck_cuda(cuFuncGetAttribute(&value, attribute, function));
    return value;
}

static void check_parameters(CUfunction function, const size_t (*wanted)[2], size_t n) {
    size_t offset, n_bytes;
    for (size_t i = 0; i < n; i++) {
        ck_cuda(cuFuncGetParamInfo(function, i, &offset, &n_bytes));
        ck_assert_uint_eq(offset, wanted[i][0]);
        ck_assert_uint_eq(n_bytes, wanted[i][1]);
    }
    ck_cuda_is(cuFuncGetParamInfo(function, n, &offset, &n_bytes), CUDA_ERROR_INVALID_VALUE);
}

/* Checks everything in the cubin above. */
static void check_cubin(CUmodule module) {
    static const size_t parameters[][2] = {{0, 8}, {8, 1}, {16, 8}, {24, 12}};
    CUfunction function;
    CUdeviceptr counter, zeros;
    size_t n_bytes;
    int value = 0;
    ck_cuda(cuModuleGetFunction(&function, module, "work"));
    check_parameters(function, parameters, 4);
    ck_assert_int_eq(attribute_of(function, CU_FUNC_ATTRIBUTE_NUM_REGS), 18);
    ck_assert_int_eq(attribute_of(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 1200);
    ck_assert_int_eq(attribute_of(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), SHARED);
    ck_assert_int_eq(attribute_of(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 256);
    ck_assert_int_eq(attribute_of(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
    ck_cuda_is(cuModuleGetFunction(&function, module, "helper"), CUDA_ERROR_NOT_FOUND);
    ck_cuda_is(cuModuleGetFunction(&function, module, "nobody"), CUDA_ERROR_NOT_FOUND);
    ck_cuda(cuModuleGetGlobal(&counter, &n_bytes, module, "counter"));
    ck_assert_uint_eq(n_bytes, 4);
    ck_cuda(cuMemcpyDtoH(&value, counter, sizeof value));
    ck_assert_int_eq(value, 5);
    ck_cuda(cuModuleGetGlobal(&zeros, &n_bytes, module, "zeros"));
    ck_assert_uint_eq(n_bytes, 40);
    ck_cuda(cuMemcpyDtoH(&value, zeros + 36, sizeof value));
    ck_assert_int_eq(value, 0);
}

TEST(the_content_of_a_cubin_is_read) {
    struct image image = cubin();
    CUmodule module = load(image.bytes);
    check_cubin(module);
    ck_cuda(cuModuleUnload(module));
    ck_assert_uint_eq(sim_live_bytes(), 0);
}

TEST(a_library_lists_its_kernels) {
    struct image image = cubin();
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    const char *name;
    unsigned n;
    load(image.bytes);
    ck_cuda(cuLibraryLoadData(&library, image.bytes, NULL, NULL, 0, NULL, NULL, 0));
    ck_cuda(cuLibraryGetKernelCount(&n, library));
    ck_assert_uint_eq(n, 1);
    ck_cuda(cuLibraryEnumerateKernels(&kernel, 1, library));
    ck_cuda(cuKernelGetFunction(&function, kernel));
    ck_cuda(cuFuncGetName(&name, function));
    ck_assert_str_eq(name, "work");
}

TEST(the_best_entry_of_a_fatbin_is_taken) {
    struct image fatbin, whole = cubin(), older = cubin();
    older.bytes[0] = 'x'; /* must not be read */
    begin_fatbin(&fatbin);
    put_entry(&fatbin, PTX, 90, PLAIN, text_of("no PTX"), 0);
    put_entry(&fatbin, CUBIN, 80, PLAIN, older, 0);
    put_entry(&fatbin, CUBIN, 90, PLAIN, whole, 0);
    put_entry(&fatbin, CUBIN, 100, PLAIN, older, 0);
    check_cubin(load(fatbin.bytes));
    const struct {
        uint32_t magic, version;
        const void *fatbin, *others;
    } wrapper = {0x466243b1, 1, fatbin.bytes, NULL};
    check_cubin(load(&wrapper));
}

TEST(an_entry_may_be_compressed) {
    struct image fatbin, whole = cubin(), packed = packed_by_lz4(whole);
    begin_fatbin(&fatbin);
    put_entry(&fatbin, CUBIN, 90, LZ4, packed, whole.n_bytes);
    check_cubin(load(fatbin.bytes));

    void *library = dlopen("libzstd.so.1", RTLD_NOW);
    size_t (*compress)(void *, size_t, const void *, size_t, int) = NULL;
    if (library)
        *(void **)&compress = dlsym(library, "ZSTD_compress");
    if (!compress)
        return; /* the driver has no name there either */
    packed.n_bytes = compress(packed.bytes, sizeof packed.bytes, whole.bytes, whole.n_bytes, 3);
    begin_fatbin(&fatbin);
    put_entry(&fatbin, CUBIN, 90, ZSTD, packed, whole.n_bytes);
    check_cubin(load(fatbin.bytes));
}

TEST(an_LZ4_match_may_overlap_itself) {
    /* 4 literals, then a match of 12 bytes at distance 4, which makes "//\n " four times; then the
     * rest of the text. */
    static const char rest[] = "\n.version 8.0 .entry one()";
    struct image fatbin, packed = {.n_bytes = 0};
    size_t n = 0;
    packed.bytes[n++] = 0x40 | (12 - 4);
    memcpy(packed.bytes + n, "//\n ", 4);
    n += 4;
    packed.bytes[n++] = 4;
    packed.bytes[n++] = 0;
    packed.bytes[n++] = (char)0xf0;
    packed.bytes[n++] = (char)(sizeof rest - 15);
    memcpy(packed.bytes + n, rest, sizeof rest);
    packed.n_bytes = n + sizeof rest;
    begin_fatbin(&fatbin);
    put_entry(&fatbin, PTX, 80, LZ4, packed, 16 + sizeof rest);
    CUmodule module = load(fatbin.bytes);
    CUfunction function;
    ck_cuda(cuModuleGetFunction(&function, module, "one"));
    ck_cuda_is(cuModuleGetFunction(&function, module, "two"), CUDA_ERROR_NOT_FOUND);
}

TEST(the_parameters_of_entries_are_read_from_ptx) {
    static const size_t parameters[][2] = {{0, 8}, {8, 1}, {16, 12}, {32, 8}};
    CUfunction function;
    CUmodule module = load("// a comment with .entry none(\n.version 9.0\n.target sm_90\n"
                           "/* .entry none */ .visible .entry takes(\n"
                           "  .param .u64 .ptr .align 1 takes_param_0,\n"
                           "  .param .u8 takes_param_1,\n"
                           "  .param .align 16 .b8 takes_param_2[12],\n"
                           "  .param .f64 takes_param_3\n)\n.maxntid 256, 1, 1\n{ ret; }\n"
                           ".entry bare() { ret; }\n");
    ck_cuda(cuModuleGetFunction(&function, module, "takes"));
    check_parameters(function, parameters, 4);
    ck_cuda(cuModuleGetFunction(&function, module, "bare"));
    check_parameters(function, parameters, 0);
    ck_cuda_is(cuModuleGetFunction(&function, module, "none"), CUDA_ERROR_NOT_FOUND);
}

TEST(an_image_that_cannot_be_read_has_every_kernel) {
    struct image fatbin, broken = cubin();
    CUfunction function;
    memset(broken.bytes + 64, 0xff, 64);
    begin_fatbin(&fatbin);
    put_entry(&fatbin, CUBIN, 90, LZ4, broken, 1000);
    ck_cuda(cuModuleGetFunction(&function, load(fatbin.bytes), "anybody"));
    begin_fatbin(&fatbin);
    put_entry(&fatbin, CUBIN, 80, PLAIN, cubin(), 0); /* no image for this device */
    ck_cuda(cuModuleGetFunction(&function, load(fatbin.bytes), "anybody"));
}

TEST(an_image_is_read_completely_from_a_file) {
    char path[] = "/tmp/unit-sim-image-XXXXXX";
    struct image image = cubin();
    CUmodule module;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, image.bytes, image.n_bytes), (ssize_t)image.n_bytes);
    load(image.bytes);
    ck_cuda(cuModuleLoad(&module, path));
    check_cubin(module);
    ck_assert_int_eq(ftruncate(fd, 100), 0);
    ck_cuda(cuModuleLoad(&module, path)); /* its section table is missing */
    close(fd);
    unlink(path);
}

/* No image makes the reader leave its bounds; sanitizers check that. */
TEST(a_damaged_image_does_no_harm) {
    struct image fatbin, changed, whole = cubin();
    CUmodule module;
    CUfunction function;
    unsigned seed = 1;
    begin_fatbin(&fatbin);
    put_entry(&fatbin, CUBIN, 90, PLAIN, whole, 0);
    put_entry(&fatbin, CUBIN, 90, LZ4, packed_by_lz4(whole), whole.n_bytes);
    load(fatbin.bytes);
    for (unsigned i = 0; i < suite_steps(20000); i++) {
        changed = fatbin;
        for (unsigned k = 0; k < 1 + i % 4; k++) {
            seed = seed * 1664525 + 1013904223;
            changed.bytes[16 + (seed >> 8) % (fatbin.n_bytes - 16)] = (char)(seed >> 3);
        }
        char *exact = malloc(fatbin.n_bytes);
        memcpy(exact, changed.bytes, fatbin.n_bytes);
        CUresult result = cuModuleLoadData(&module, exact);
        free(exact);
        if (result != CUDA_SUCCESS) {
            ck_assert_int_eq(result, CUDA_ERROR_OUT_OF_MEMORY); /* a variable of any size */
            continue;
        }
        cuModuleGetFunction(&function, module, "work");
        ck_cuda(cuModuleUnload(module));
    }
}

SUITE() {
    return tests_run("sim image");
}
