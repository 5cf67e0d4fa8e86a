/* The thread's last error in vkgdr's form; only open and alloc set it. */
#ifndef CUSHIM_DROPIN_VKGDR_ERROR_H
#define CUSHIM_DROPIN_VKGDR_ERROR_H

/* An open or an alloc begins, so there is no error. */
void vkgdr_error_clear(void);

/* vkgdr itself failed: "<what> failed (<name>)".  Returns NULL. */
void *vkgdr_error_set(const char *what, const char *name);

/* libcushim failed: its text is put into that form.  If the name is neither CUDA's nor Vulkan's, it
 * says little, so the reason follows.  Returns NULL. */
void *vkgdr_error_take(void);

#endif
