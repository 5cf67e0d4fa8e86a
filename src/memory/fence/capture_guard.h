/*
 * The capture guard: what the host of a heap knows about open captures, asked before each wait.
 *
 * A record over a context invalidates every capture of that context, so none may be made while a
 * capture begins.  A heap does not know captures: whoever owns the heap hands it these functions.
 */
#ifndef CUSHIM_MEMORY_CAPTURE_GUARD_H
#define CUSHIM_MEMORY_CAPTURE_GUARD_H

#include <stdbool.h>

enum cushim_mem_pass {
    CUSHIM_MEM_PASS_RECORD,  /* no capture is open, and none begins until leave is called */
    CUSHIM_MEM_PASS_RELAXED, /* one is open: neither record nor leave, use native's own barrier */
    CUSHIM_MEM_PASS_OWN /* the calling thread captures: native's barrier, as the caller would meet
                           it */
};

struct cushim_mem_capture_guard {
    bool (*is_open)(void); /* is a capture open?  A hint: one may begin a moment later */
    enum cushim_mem_pass (*enter)(void);
    void (*leave)(void); /* after PASS_RECORD alone */
};

#endif
