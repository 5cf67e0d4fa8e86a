/* The names of the HOOK rows of symbols.def, for callers that do not need the rows themselves. */
#pragma once

/* The exported name of a row of enum cushim_cuda_symbol; "?" behind the last one. */
const char *cushim_cuda_symbol_name(unsigned row);
