#include "preload/readers.h"

#include "base/log.h"
#include "preload/engine.h"
#include "preload/object.h"

enum { DEDICATED_FOR_READERS_BYTES = 2 << 20 };

static void expect(const char *why) {
    atomic_size_t *dedicated_bytes = &cushim_engine.policy.dedicated_bytes;
    if (atomic_load_explicit(dedicated_bytes, memory_order_relaxed) > DEDICATED_FOR_READERS_BYTES)
        atomic_store_explicit(dedicated_bytes, DEDICATED_FOR_READERS_BYTES, memory_order_relaxed);
    if (!atomic_exchange(&cushim_engine.policy.is_dedicated_uncached, true))
        log_info("pool",
                 "device memory may be read from outside (%s): 2 MiB and up is freed natively now",
                 why);
}

void cushim_readers_expect(void) {
    if (cushim_engine_is_on())
        expect("a pin was asked for");
}

void cushim_readers_look(void) {
    static const char *const libraries[] = {"libibverbs.so", "libcufile.so", "libgdrapi.so"};
    if (atomic_load_explicit(&cushim_engine.policy.is_dedicated_uncached, memory_order_relaxed))
        return;
    for (unsigned i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        if (cushim_object_list(libraries[i], NULL, NULL, 0))
            expect(libraries[i]);
    }
}
