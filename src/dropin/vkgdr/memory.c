/* Memory of the drop-in: a vkgdr_memory_t is the handle of a struct cushim_mapped. */
#include "dropin/vkgdr/error.h"
#include "dropin/vkgdr/open.h"

static struct cushim_mapped *mapped_of(vkgdr_memory_t mem) {
    return (struct cushim_mapped *)mem;
}

vkgdr_memory_t vkgdr_memory_alloc(vkgdr_t g, size_t size, uint32_t flags) {
    struct cushim_mapped *mapped;
    vkgdr_error_clear();
    if (flags) /* one of cushim's flags would have another meaning there */
        return vkgdr_error_set("vkgdr_memory_alloc", "CUSHIM_INVALID");
    struct cushim_mapper *mapper = vkgdr_mapper_of_current(g);
    if (!mapper)
        return NULL;
    return cushim_mapped_alloc(mapper, size, 0, &mapped) == CUSHIM_OK ? (vkgdr_memory_t)mapped
                                                                      : vkgdr_error_take();
}

void vkgdr_memory_free(vkgdr_memory_t mem) {
    cushim_mapped_free(mapped_of(mem));
}

/* A fact of the memory.  After a failure the out parameters of libcushim are 0. */
#define FACT(type, name, fact, type_of_fact)                                                       \
    type vkgdr_memory_##name(vkgdr_memory_t mem) {                                                 \
        type_of_fact value;                                                                        \
        cushim_mapped_##fact(mapped_of(mem), &value);                                              \
        return value;                                                                              \
    }

FACT(void *, get_host_ptr, host, void *)
FACT(CUdeviceptr, get_device_ptr, device, cushim_devptr)
FACT(size_t, get_size, size, size_t)
FACT(bool, is_coherent, coherent, int)
FACT(size_t, non_coherent_atom_size, atom, size_t)

/* Widen the range to whole atoms, but not beyond the end; false: it is empty. */
static bool widen(vkgdr_memory_t mem, size_t *offset, size_t *size) {
    size_t atom = vkgdr_memory_non_coherent_atom_size(mem), whole = vkgdr_memory_get_size(mem);
    if (!atom || *offset >= whole || !*size)
        return false;
    size_t end = *size < whole - *offset ? *offset + *size : whole;
    size_t past = end % atom ? end + (atom - end % atom) : end;
    *offset -= *offset % atom;
    *size = (past < whole ? past : whole) - *offset;
    return true;
}

void vkgdr_memory_flush(vkgdr_memory_t mem, size_t offset, size_t size) {
    if (widen(mem, &offset, &size))
        cushim_mapped_flush(mapped_of(mem), offset, size);
}

void vkgdr_memory_invalidate(vkgdr_memory_t mem, size_t offset, size_t size) {
    if (widen(mem, &offset, &size))
        cushim_mapped_invalidate(mapped_of(mem), offset, size);
}
