/* The thread's last error as vkgdr words it: of open and alloc alone. */
#ifndef CUSHIM_DROPIN_VKGDR_ERROR_H
#define CUSHIM_DROPIN_VKGDR_ERROR_H

/* An open or an alloc begins: there is no error. */
void vkgdr_error_clear(void);

/* It failed: "<what> failed (<name>)". */
void vkgdr_error_set(const char *what, const char *name);

/* It failed in libcushim, whose text is put into that form; the reason follows where the name is
 * neither CUDA's nor Vulkan's, and so says little. */
void vkgdr_error_take(void);

#endif
