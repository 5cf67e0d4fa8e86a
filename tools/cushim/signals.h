/*
 * Signals of a command that waits for a program: those that another process sends are meant for the
 * program, and the terminal sends its own to both.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Block signals until it is known whom they are passed to, and outlive those of the terminal. */
void signals_take(void);

/* Pass signals to the process from now on; 0: to none, because it has ended or did not start. */
void signals_pass_to(pid_t process);

/* The actions and the mask are again those that this process inherited. */
void signals_give_back(void);

/* Has this signal come to this process since signals_take? */
bool signals_have(int number);

/* End this process by a signal, without a core file and without destructors. */
__attribute__((noreturn)) void signals_end_by(int number);
