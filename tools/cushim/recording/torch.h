/* Writes a recording for PyTorch's memory_viz: a pickle of protocol 2 with the trace of each
 * device, and the segments at the end. */
#ifndef CUSHIM_TOOLS_TORCH_H
#define CUSHIM_TOOLS_TORCH_H

struct cushim_writer;

/* One recording.  Returns 0 or an errno.  Of a long one the last 200,000 entries of each device. */
int torch_put(struct cushim_writer *out, const char *path);

#endif
