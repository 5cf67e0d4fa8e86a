/* Words that streams and graphs write and wait for. */
#pragma once

#include "work.h"

struct sim_device;

/* The work of a node of many words, checked; the device is the one that will do it, or NULL. */
CUresult sim_words_work(const CUstreamBatchMemOpParams *params, unsigned n, unsigned flags,
                        const struct sim_device *device, struct sim_work *work);
