/* `cushim replay`: what a recording would have held with other settings. */
#ifndef CUSHIM_TOOLS_REPLAY_H
#define CUSHIM_TOOLS_REPLAY_H

int replay_main(int argc, char **argv);

#endif
