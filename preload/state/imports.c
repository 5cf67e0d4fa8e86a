#include "preload/state/imports.h"
#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct import {
    uint64_t address, base;
    unsigned n_opens;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct import *imports; /* by address */

static struct import *find(uint64_t address) {
    struct import *import;
    HASH_FIND(hh, imports, &address, sizeof address, import);
    return import;
}

bool cushim_imports_enter(uint64_t address, uint64_t base) {
    CUSHIM_LOCKED(&lock);
    struct import *import = find(address);
    if (!import && (import = malloc(sizeof *import))) {
        *import = (struct import){.address = address, .base = base};
        HASH_ADD(hh, imports, address, sizeof import->address, import);
        if (!find(address)) {
            free(import);
            import = NULL;
        }
    }
    if (import)
        import->n_opens++;
    return import;
}

bool cushim_imports_has(uint64_t address) {
    CUSHIM_LOCKED(&lock);
    return find(address);
}

uint64_t cushim_imports_leave(uint64_t address) {
    uint64_t base = 0;
    CUSHIM_LOCKED(&lock);
    struct import *import = find(address);
    if (import) {
        base = import->base;
        if (--import->n_opens == 0) {
            HASH_DEL(imports, import);
            free(import);
        }
    }
    return base;
}
