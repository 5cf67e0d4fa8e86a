#include "model.h"

#include "options.h"

struct sim_model sim_model(void) {
    static const struct sim_model rows[] = {
#define MODEL(...) {__VA_ARGS__},
#include "model.def"
#undef MODEL
    };
    int capability = (int)sim_options()->capability;
    struct sim_model model = rows[0];
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].capability <= capability)
            model = rows[i];
    }
    model.capability = capability;
    return model;
}
