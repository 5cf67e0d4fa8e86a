#include "memory/fence/launches.h"

struct cushim_mem_launches cushim_mem_launches = {.round = 1};
