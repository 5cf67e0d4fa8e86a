/*
 * The mark of what libcushim shares with cushim's own libraries, of the same build: exported with
 * the version CUSHIM_PRIVATE, no part of the ABI.
 */
#ifndef CUSHIM_COMPANION_EXPORT_H
#define CUSHIM_COMPANION_EXPORT_H

#define CUSHIM_SHARED __attribute__((visibility("default")))

#endif
