/* The generators that are not in generate.c. */
#ifndef CUSHIM_PROPERTY_GENERATORS_H
#define CUSHIM_PROPERTY_GENERATORS_H

#include "maker.h"

void make_edges(struct maker *maker);
void make_brim(struct maker *maker);
void make_crowd(struct maker *maker);
void make_islands(struct maker *maker);
void make_tangle(struct maker *maker);

#endif
