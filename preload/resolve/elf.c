#include "preload/resolve/elf.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/resolve/export.h"
#include "preload/resolve/fork.h"

CUSHIM_EARLY bool cushim_object_equal(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

CUSHIM_EARLY static bool begins(const char *text, const char *prefix) {
    while (*prefix && *text == *prefix) {
        text++;
        prefix++;
    }
    return !*prefix;
}

CUSHIM_EARLY const char *cushim_object_base_name(const struct cushim_object *object) {
    const char *base = object->name ? object->name : "";
    for (const char *p = base; *p; p++)
        if (*p == '/')
            base = p + 1;
    return base;
}

CUSHIM_EARLY bool cushim_object_is_named(const struct cushim_object *object, const char *prefix) {
    return begins(cushim_object_base_name(object), prefix);
}

/* The tables of one object that a look-up by name reads. */
struct tables {
    const Elf64_Sym *symbols;
    const char *strings;
    const Elf64_Half *versions; /* NULL: the object has no versions */
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
};

/* The loader adds the load offset to these words in place, unless the dynamic section is read-only.
 */
CUSHIM_EARLY static const void *address_of(const struct cushim_object *object,
                                           const Elf64_Dyn *entry) {
    uintptr_t address = entry->d_un.d_ptr;
    if (address < object->load_offset)
        address += object->load_offset;
    return (const void *)address;
}

CUSHIM_EARLY static bool read_tables(const struct cushim_object *object, struct tables *out) {
    struct tables tables = {NULL, NULL, NULL, NULL, NULL};
    if (!object->dynamic)
        return false;
    for (const Elf64_Dyn *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = address_of(object, entry);
            break;
        case DT_STRTAB:
            tables.strings = address_of(object, entry);
            break;
        case DT_VERSYM:
            tables.versions = address_of(object, entry);
            break;
        case DT_GNU_HASH:
            tables.gnu_hash = address_of(object, entry);
            break;
        case DT_HASH:
            tables.sysv_hash = address_of(object, entry);
            break;
        default:
            break;
        }
    }
    *out = tables;
    return tables.symbols && tables.strings;
}

CUSHIM_EARLY bool cushim_object_needs(const struct cushim_object *object, const char *file) {
    struct tables tables;
    if (!read_tables(object, &tables))
        return false;
    for (const Elf64_Dyn *entry = object->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED &&
            cushim_object_equal(tables.strings + entry->d_un.d_val, file))
            return true;
    return false;
}

/* Is entry `i` a definition of `name` that a plain reference would bind to? */
CUSHIM_EARLY static bool defines(const struct tables *tables, uint32_t i, const char *name) {
    const Elf64_Sym *symbol = &tables->symbols[i];
    unsigned type = symbol->st_info & 0xf, binding = symbol->st_info >> 4;
    if (symbol->st_shndx == SHN_UNDEF || (binding != STB_GLOBAL && binding != STB_WEAK))
        return false;
    if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE)
        return false;
    if (tables->versions && (tables->versions[i] & 0x8000)) /* hidden: an old version of the name */
        return false;
    return cushim_object_equal(tables->strings + symbol->st_name, name);
}

/* DT_GNU_HASH: 4 words, bloom filter, buckets, then a hash a symbol; a low bit ends a chain. */
CUSHIM_EARLY static uint32_t find_by_gnu_hash(const struct tables *tables, const char *name) {
    const uint32_t *head = tables->gnu_hash;
    uint32_t n_buckets = head[0], first = head[1], n_bloom = head[2];
    const uint32_t *buckets = (const uint32_t *)((const Elf64_Addr *)(head + 4) + n_bloom);
    const uint32_t *chain = buckets + n_buckets;
    uint32_t hash = 5381;
    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    if (!n_buckets)
        return 0;
    uint32_t i = buckets[hash % n_buckets];
    if (i < first)
        return 0;
    for (;; i++) {
        uint32_t link = chain[i - first];
        if ((link | 1) == (hash | 1) && defines(tables, i, name))
            return i;
        if (link & 1)
            return 0;
    }
}

/* DT_HASH: two counts, buckets, then the next symbol of each. */
CUSHIM_EARLY static uint32_t find_by_sysv_hash(const struct tables *tables, const char *name) {
    const uint32_t *head = tables->sysv_hash, *buckets = head + 2, *next = buckets + head[0];
    uint32_t hash = 0;
    for (const char *p = name; *p; p++) {
        hash = (hash << 4) + (unsigned char)*p;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    if (!head[0])
        return 0;
    for (uint32_t i = buckets[hash % head[0]]; i; i = next[i])
        if (defines(tables, i, name))
            return i;
    return 0;
}

CUSHIM_EARLY void *cushim_object_symbol(const struct cushim_object *object, const char *name) {
    struct tables tables;
    uint32_t i = 0;
    if (!read_tables(object, &tables))
        return NULL;
    if (tables.gnu_hash)
        i = find_by_gnu_hash(&tables, name);
    else if (tables.sysv_hash)
        i = find_by_sysv_hash(&tables, name);
    return i ? (void *)(object->load_offset + tables.symbols[i].st_value) : NULL;
}

/* One walk over the loaded objects: what is looked for, and what was found. */
struct walk {
    const char *prefix;                 /* its base name begins like this, or NULL */
    const char *symbol;                 /* it defines this, or NULL */
    const void *address;                /* this is mapped from it, or NULL */
    const struct cushim_object *object; /* it is this object, or NULL */
    struct cushim_object *out;
    unsigned max, n_found;
};

CUSHIM_EARLY static bool is_mapped_at(const struct dl_phdr_info *info, uintptr_t address) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            return true;
    }
    return false;
}

CUSHIM_EARLY static int visit(struct dl_phdr_info *info, size_t size, void *cookie) {
    struct walk *walk = cookie;
    struct cushim_object object = {info->dlpi_addr, info->dlpi_name, NULL};
    (void)size;
    if (walk->prefix && !cushim_object_is_named(&object, walk->prefix))
        return 0;
    if (walk->address && !is_mapped_at(info, (uintptr_t)walk->address))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            object.dynamic = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (walk->object &&
        (object.dynamic != walk->object->dynamic || object.name != walk->object->name))
        return 0;
    if (walk->symbol && !cushim_object_symbol(&object, walk->symbol))
        return 0;
    if (walk->n_found < walk->max)
        walk->out[walk->n_found] = object;
    walk->n_found++;
    return !walk->prefix; /* only a list goes on after the first */
}

/* The loader's list has a lock of its own, which a child may need as well. */
CUSHIM_EARLY static bool go(int (*each)(struct dl_phdr_info *, size_t, void *), void *cookie) {
    bool is_held_off = cushim_fork_hold_off();
    bool is_found = dl_iterate_phdr(each, cookie) != 0;
    cushim_fork_let_go(is_held_off);
    return is_found;
}

CUSHIM_EARLY unsigned cushim_object_list(const char *prefix, const char *symbol,
                                         struct cushim_object *out, unsigned max) {
    struct walk walk = {.prefix = prefix, .symbol = symbol, .out = out, .max = max};
    go(visit, &walk);
    return walk.n_found;
}

CUSHIM_EARLY bool cushim_object_at(const void *address, struct cushim_object *out) {
    struct walk walk = {.address = address, .out = out, .max = 1};
    return address && go(visit, &walk);
}

CUSHIM_EARLY bool cushim_object_is_loaded(const struct cushim_object *object) {
    struct walk walk = {.object = object};
    return go(visit, &walk);
}

CUSHIM_EARLY static int read_unloads(struct dl_phdr_info *info, size_t size, void *cookie) {
    (void)size;
    *(unsigned long long *)cookie = info->dlpi_subs;
    return 1;
}

CUSHIM_EARLY unsigned long long cushim_object_unloads(void) {
    unsigned long long n = 0;
    go(read_unloads, &n);
    return n;
}

/* From the loader's list.  Not by dl_iterate_phdr, because thread sanitizers replace it, and look
 * names up before the replacement works. */
CUSHIM_EARLY static struct link_map *map_at(const void *address) {
    struct link_map *map = NULL;
    Dl_info info;
    return cushim_object_is_of_glibc() && dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP)
               ? map
               : NULL;
}

static const char anchor = 0; /* any address of ours */

extern const Elf64_Dyn own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

/* The program comes first, and has the address of the list for debuggers. */
CUSHIM_EARLY static int take_list(struct dl_phdr_info *info, size_t size, void *cookie) {
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const Elf64_Dyn *entry = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_DEBUG)
                *(const struct r_debug **)cookie = (const struct r_debug *)entry->d_un.d_ptr;
    }
    return 1;
}

/* Ours, in a C library without dladdr1.  No driver is made for such a library, but it loads this
 * object for all of its programs, and calls of dlsym come to us there, too. */
CUSHIM_EARLY static struct link_map *own_map_of_debuggers(void) {
    const struct r_debug *debug = NULL;
    dl_iterate_phdr(take_list, &debug);
    struct link_map *map = debug ? debug->r_map : NULL;
    while (map && map->l_ld != own_dynamic)
        map = map->l_next;
    return map;
}

/* Ours, which never changes.  Ask the loader only once, because it may be busy with a dlopen. */
CUSHIM_EARLY static struct link_map *own_map(void) {
    static _Atomic(struct link_map *) own;
    struct link_map *map = atomic_load_explicit(&own, memory_order_relaxed);
    if (!map) {
        map = cushim_object_is_of_glibc() ? map_at(&anchor) : own_map_of_debuggers();
        atomic_store_explicit(&own, map, memory_order_relaxed);
    }
    return map;
}

/* Of any version: all of them export this. */
CUSHIM_EARLY static bool is_copy(const struct cushim_object *object) {
    return cushim_object_symbol(object, "cushim_preload_capturing");
}

CUSHIM_EARLY void *cushim_object_interposed(const char *name, const char *ahead_of) {
    struct link_map *map = own_map();
    while (map && (map = map->l_next)) {
        struct cushim_object object = {map->l_addr, map->l_name, map->l_ld};
        if (ahead_of && (cushim_object_is_named(&object, "libc.so") ||
                         cushim_object_is_named(&object, ahead_of)))
            return NULL;
        void *address = cushim_object_symbol(&object, name);
        /* a second copy of this library hooks the same functions; one of the two is enough */
        if (address && !is_copy(&object))
            return address;
    }
    return NULL;
}

CUSHIM_EARLY void *cushim_object_next_symbol(const char *name) {
    return cushim_object_interposed(name, NULL);
}

/* The kernel's own object is ahead of every preload, and no call is bound to it. */
static bool is_ahead_of_us(const char *name) {
    struct link_map *map = own_map();
    while (map && (map = map->l_prev)) {
        struct cushim_object object = {map->l_addr, map->l_name, map->l_ld};
        if (!cushim_object_is_named(&object, "linux-vdso.so") &&
            cushim_object_symbol(&object, name))
            return true;
    }
    return false;
}

static bool is_of_host_memory(const char *name) {
    static const char *const names[] = {"malloc", "calloc", "realloc", "reallocarray", "free"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (cushim_object_equal(name, names[i]))
            return true;
    }
    return false;
}

/* The loader made its words read-only when it had bound them. */
static void bind(void **word, void *function) {
    int (*protect)(void *, size_t, int);
    long (*ask)(int);
    *(void **)&protect = cushim_object_next_symbol("mprotect");
    *(void **)&ask = cushim_object_next_symbol("sysconf");
    size_t page_bytes = ask ? (size_t)ask(_SC_PAGESIZE) : 0;
    void *page = (void *)((uintptr_t)word & ~(page_bytes - 1));
    if (!page_bytes || !protect || protect(page, page_bytes, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(word, function, __ATOMIC_RELEASE);
    protect(page, page_bytes, PROT_READ);
}

void cushim_object_pass_by(const char *name) {
    const Elf64_Rela *calls = NULL;
    struct link_map *map = own_map();
    struct cushim_object object = {map ? map->l_addr : 0, "", map ? map->l_ld : NULL};
    struct tables tables;
    size_t n_bytes = 0;
    if (CUSHIM_IS_SANITIZED || !map || !read_tables(&object, &tables))
        return;
    for (const Elf64_Dyn *entry = object.dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_JMPREL)
            calls = address_of(&object, entry);
        if (entry->d_tag == DT_PLTRELSZ)
            n_bytes = entry->d_un.d_val;
    }
    for (size_t i = 0; calls && i < n_bytes / sizeof *calls; i++) {
        const Elf64_Sym *symbol = &tables.symbols[ELF64_R_SYM(calls[i].r_info)];
        const char *called = tables.strings + symbol->st_name;
        if (symbol->st_shndx != SHN_UNDEF || is_of_host_memory(called) ||
            (name && !cushim_object_equal(called, name)) || !is_ahead_of_us(called))
            continue;
        void *function = cushim_object_next_symbol(called);
        if (function)
            bind((void **)(object.load_offset + calls[i].r_offset), function);
    }
}

const char *cushim_object_copy(bool is_ahead) {
    struct link_map *map = own_map();
    while (map && (map = is_ahead ? map->l_prev : map->l_next)) {
        struct cushim_object object = {map->l_addr, map->l_name, map->l_ld};
        if (cushim_object_is_named(&object, "libc.so")) /* preloads are ahead of it */
            return NULL;
        if (is_copy(&object))
            return object.name;
    }
    return NULL;
}

CUSHIM_EARLY bool cushim_object_is_ahead(const void *address) {
    const struct link_map *ours = own_map(), *map = map_at(address);
    if (!ours || map == ours)
        return false;
    while (map && map != ours)
        map = map->l_next;
    return map;
}
