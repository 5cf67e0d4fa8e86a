/* `cushim metrics`: live pages, in the text format of Prometheus. */
#ifndef CUSHIM_TOOLS_METRICS_H
#define CUSHIM_TOOLS_METRICS_H

/* argv[0] is "metrics". */
int metrics_main(int argc, char **argv);

#endif
