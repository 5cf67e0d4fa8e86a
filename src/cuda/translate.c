#include "cuda/translate.h"

#include <stddef.h>

/* Ranges of the driver's numbers, ascending; numbers between them are CUSHIM_SYSTEM. */
static const struct {
    short first, last;
    enum cushim_status status;
} ranges[] = {
    {0, 0, CUSHIM_OK},
    {1, 1, CUSHIM_INVALID},
    {2, 2, CUSHIM_NOMEM},
    {3, 3, CUSHIM_NOCONTEXT},
    {4, 4, CUSHIM_DEADCONTEXT},
    {5, 6, CUSHIM_NOTSUPPORTED},
    {7, 8, CUSHIM_STATE},
    {34, 34, CUSHIM_SYSTEM},
    {36, 36, CUSHIM_NOSYM},
    {46, 46, CUSHIM_BADDEVICE},
    {100, 100, CUSHIM_NODEVICE},
    {101, 102, CUSHIM_BADDEVICE},
    {200, 200, CUSHIM_COMPILE},
    {201, 201, CUSHIM_NOCONTEXT},
    {202, 202, CUSHIM_STATE},
    {205, 206, CUSHIM_SYSTEM},
    {207, 208, CUSHIM_STATE},
    {209, 209, CUSHIM_NOBINARY},
    {210, 213, CUSHIM_STATE},
    {214, 214, CUSHIM_ECC},
    {215, 215, CUSHIM_INVALID},
    {216, 216, CUSHIM_STATE},
    {217, 217, CUSHIM_NOTSUPPORTED},
    {218, 218, CUSHIM_COMPILE},
    {219, 219, CUSHIM_NOTSUPPORTED},
    {220, 220, CUSHIM_FAULT},
    {221, 223, CUSHIM_COMPILE},
    {224, 224, CUSHIM_NOTSUPPORTED},
    {225, 225, CUSHIM_COMPILE},
    {226, 226, CUSHIM_FAULT},
    {300, 300, CUSHIM_COMPILE},
    {301, 301, CUSHIM_NOFILE},
    {302, 302, CUSHIM_NOTFOUND},
    {303, 304, CUSHIM_SYSTEM},
    {400, 400, CUSHIM_BADHANDLE},
    {401, 401, CUSHIM_STATE},
    {402, 402, CUSHIM_INVALID},
    {500, 500, CUSHIM_NOTFOUND},
    {600, 600, CUSHIM_NOTREADY},
    {700, 700, CUSHIM_FAULT},
    {701, 703, CUSHIM_LAUNCH},
    {704, 705, CUSHIM_STATE},
    {708, 708, CUSHIM_STATE},
    {709, 709, CUSHIM_DEADCONTEXT},
    {710, 710, CUSHIM_FAULT},
    {711, 711, CUSHIM_NOTSUPPORTED},
    {712, 713, CUSHIM_STATE},
    {714, 718, CUSHIM_FAULT},
    {719, 719, CUSHIM_LAUNCH},
    {720, 720, CUSHIM_INVALID},
    {721, 721, CUSHIM_FAULT},
    {800, 801, CUSHIM_NOTSUPPORTED},
    {802, 810, CUSHIM_SYSTEM},
    {811, 812, CUSHIM_NOTSUPPORTED},
    {900, 908, CUSHIM_CAPTURE},
    {909, 909, CUSHIM_TIMEOUT},
    {910, 910, CUSHIM_UPDATE},
    {911, 911, CUSHIM_NOTSUPPORTED},
    {912, 912, CUSHIM_INVALID},
    {913, 913, CUSHIM_NOTFOUND},
    {914, 915, CUSHIM_INVALID},
    {916, 916, CUSHIM_SYSTEM},
    {999, 999, CUSHIM_UNKNOWN},
};

enum cushim_status cushim_status_from_cu(CUresult result) {
    int number = (int)result;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (number >= ranges[i].first && number <= ranges[i].last)
            return ranges[i].status;
    }
    return CUSHIM_SYSTEM;
}
