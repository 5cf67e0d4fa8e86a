/*
 * The injection of NVTX 3: what its headers, which are compiled into a program, ask of a tool.
 *
 * The program's copy of NVTX loads the file that NVTX_INJECTION64_PATH names, calls
 * InitializeInjectionNvtx2 there and hands it a function that gives out tables by number.  One of
 * them says for each module where its function pointers lie.  A tool writes those that it needs;
 * the others do nothing.  A program may have several copies, and each asks.
 *
 * Only what is used here is declared.  The names are ours, the numbers and layouts are NVTX's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CUSHIM_NVTX_TABLE_CALLBACKS = 1 };
enum { CUSHIM_NVTX_MODULE_CORE = 1, CUSHIM_NVTX_MODULE_CORE2 = 5 };

/* Places in module CORE. */
enum {
    CUSHIM_NVTX_RANGE_START_EX = 4,
    CUSHIM_NVTX_RANGE_START_A,
    CUSHIM_NVTX_RANGE_START_W,
    CUSHIM_NVTX_RANGE_END,
    CUSHIM_NVTX_RANGE_PUSH_EX,
    CUSHIM_NVTX_RANGE_PUSH_A,
    CUSHIM_NVTX_RANGE_PUSH_W,
    CUSHIM_NVTX_RANGE_POP
};

/* Places in module CORE2. */
enum {
    CUSHIM_NVTX_DOMAIN_RANGE_START_EX = 2,
    CUSHIM_NVTX_DOMAIN_RANGE_END,
    CUSHIM_NVTX_DOMAIN_RANGE_PUSH_EX,
    CUSHIM_NVTX_DOMAIN_RANGE_POP,
    CUSHIM_NVTX_DOMAIN_REGISTER_STRING_A = 10,
    CUSHIM_NVTX_DOMAIN_REGISTER_STRING_W,
    CUSHIM_NVTX_DOMAIN_CREATE_A,
    CUSHIM_NVTX_DOMAIN_CREATE_W
};

enum { CUSHIM_NVTX_ASCII = 1, CUSHIM_NVTX_WIDE = 2, CUSHIM_NVTX_REGISTERED = 3 };

/* The argument of the functions whose names end in Ex. */
struct cushim_nvtx_event {
    uint16_t version, n_bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* one of the three above */
    const void *message;
};

/* The level of a range on its stack is unknown. */
enum { CUSHIM_NVTX_NO_LEVEL = -2 };

typedef void (*cushim_nvtx_fn)(void);

struct cushim_nvtx_callbacks {
    size_t n_bytes;
    /* The places of a module, each of which leads to a function pointer.  1 is success. */
    int (*find)(int module, cushim_nvtx_fn ***places, unsigned *n_places);
};

typedef const void *cushim_nvtx_tables_fn(uint32_t table);

/**
 * The function that the program's NVTX looks up in the file and calls.
 * @param tables  gives out a table by its number, NULL if it has none
 * @return 1 always, because 0 would be an error to the caller
 */
int InitializeInjectionNvtx2(cushim_nvtx_tables_fn *tables);
