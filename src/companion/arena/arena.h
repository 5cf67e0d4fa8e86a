/*
 * Arenas as the graph module uses them: the blocks that one capture took.
 *
 * Order of calls: prepare before the capture begins, start after it began, stop when it has ended
 * or was aborted, and drop when nothing made from it can run.  Between start and drop no reset goes
 * below the highest of its blocks.  The arena's memory is kept until the drop, so its handle may be
 * destroyed first.
 */
#pragma once

#include "companion/context/context.h"

struct cushim_arena_graph;

/**
 * Make ready for a capture: wait on the host for the fences of resets.
 * @param what     our public function, for texts
 * @param context  of the capture; the arena must be of the same one
 * @param out      NULL after a failure
 * @return CUSHIM_OK | BADHANDLE | BADDEVICE | CAPTURE (a capture is known, and a wait is due) |
 *         NOMEM | the driver's; the error text is set
 * Threads  any; `context` is current, and no capture in it may begin through us meanwhile
 */
enum cushim_status cushim_arena_graph_prepare(const char *what,
                                              struct cushim_context_object *context,
                                              struct cushim_arena *arena,
                                              struct cushim_arena_graph **out);

/**
 * The capture began: from here on its blocks are collected.
 * @param capture_id  of cuStreamGetCaptureInfo; a block belongs to the capture if its stream takes
 *                    part in it, or if the thread that began the capture asks for it on ALL
 */
void cushim_arena_graph_start(struct cushim_arena_graph *hold, uint64_t capture_id);

/* The capture is over, so stop collecting blocks.  Without a start it does nothing. */
void cushim_arena_graph_stop(struct cushim_arena_graph *hold);

/* How much is held. */
size_t cushim_arena_graph_bytes(struct cushim_arena_graph *hold);

/* The graph, its executables and their last launches are gone: the next reset may take the blocks.
 * NULL is fine. */
void cushim_arena_graph_drop(struct cushim_arena_graph *hold);
