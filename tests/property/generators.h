/* The generators that are not in generate.c. */
#pragma once

#include "maker.h"

void make_edges(struct maker *maker);
void make_brim(struct maker *maker);
void make_crowd(struct maker *maker);
void make_islands(struct maker *maker);
void make_tangle(struct maker *maker);
