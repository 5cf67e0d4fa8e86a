/*
 * Which handles are alive, and of what kind.
 *
 * Every object that a program names by a handle is an address of ours.  One that is not in this set
 * is stale or foreign, and using it is an error instead of a crash.
 */
#pragma once

#include <stdbool.h>

enum sim_handle_kind {
    SIM_HANDLE_NONE,
    SIM_HANDLE_CONTEXT,
    SIM_HANDLE_STREAM,
    SIM_HANDLE_EVENT,
    SIM_HANDLE_GRAPH,
    SIM_HANDLE_NODE,
    SIM_HANDLE_EXEC,
    SIM_HANDLE_MODULE,
    SIM_HANDLE_LINK,
    SIM_HANDLE_FUNCTION,
    SIM_HANDLE_POOL,
    SIM_HANDLE_ARRAY,
    SIM_HANDLE_MIPMAP,
    SIM_HANDLE_PHYSICAL,
    SIM_HANDLE_USER_OBJECT,
    SIM_HANDLE_EXTERNAL,
};

/* False: no memory for one more. */
bool sim_handle_add(const void *object, enum sim_handle_kind kind);

bool sim_handle_is(const void *object, enum sim_handle_kind kind);

/* Remove an object that is in the set. */
void sim_handle_remove(const void *object);
