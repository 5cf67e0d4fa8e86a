/*
 * Makes a library without code that has another name, and needs the software device's runtime.
 *
 * Tools that pack wheels rename the runtime in them, such as `libcudart-9f92e4c3.so.13.3.29`.  A
 * library of that name in LD_PRELOAD replaces it.
 */
#ifndef CUSHIM_TOOLS_SIM_ALIAS_H
#define CUSHIM_TOOLS_SIM_ALIAS_H

/* The CUDA version of a runtime with this file name, 12 or 13; 0 if it is not the name of a
 * runtime. */
int sim_alias_version(const char *name);

/* Write the library to `path`. Returns 0 or an errno. */
int sim_alias_write(const char *path, const char *name);

#endif
