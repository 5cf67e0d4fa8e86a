/* Sets: judged like copies, then put into a stream. */
#ifndef CUSHIM_SIM_SET_H
#define CUSHIM_SIM_SET_H

#include "abi.h"
#include "work.h"

/* Check a set's shape and where it lies. */
CUresult sim_set_judge(const struct sim_set_work *set);

#endif
