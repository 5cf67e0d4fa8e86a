/* Words that a stream or a graph writes, or waits for.  Each is judged like a set (interposition.md
 * C10). */
#pragma once

#include "preload/entry/copy_check.h"

/* The word of one operation of a batch; false: it has none. */
bool cushim_word_describe(const CUstreamBatchMemOpParams *operation, CUstream stream,
                          struct cushim_copy *word);
