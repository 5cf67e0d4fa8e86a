/*
 * Signals of a command that waits for a program: those that another process sends are meant for the
 * program, and the terminal sends its own to both.
 */
#pragma once

#include <sys/types.h>

/* Block all signals until it is known whom they are passed to, and ignore those of the terminal. */
void signals_take(void);

/* Pass signals to the process from now on; 0: to none, because it has ended or did not start. */
void signals_pass_to(pid_t process);

/* The actions and the mask are again those that this process inherited. */
void signals_give_back(void);
