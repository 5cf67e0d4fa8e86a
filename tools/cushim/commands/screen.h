/*
 * A terminal as a screen: keys as they are typed, and a picture that replaces the one before.  The
 * old contents come back at the end, and while the process is stopped (Ctrl-Z).
 */
#ifndef CUSHIM_TOOLS_SCREEN_H
#define CUSHIM_TOOLS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/writer.h"

/* Is standard output a terminal to draw on, and standard input one to type on? */
bool screen_is_there(void);

/* False, with errno: there is none. */
bool screen_begin(void);
void screen_end(void);

/* Columns and rows now. */
void screen_size(int *columns, int *rows);

/* What was typed, or what happened. */
enum {
    SCREEN_NOTHING = 0, /* the time is over */
    SCREEN_RESIZED = -1,
    SCREEN_OVER = -2, /* by a signal, or the input ended */
    SCREEN_UP = -3,
    SCREEN_DOWN = -4
};
int screen_wait(int milliseconds);

/* The signal that ended it; 0: none. */
int screen_signal(void);

/* A picture: lines are cut at the width, and lines beyond the height are left out. */
struct screen_picture {
    struct cushim_writer out;
    int columns, rows, n_lines;
};
void screen_draw(struct screen_picture *picture);
void screen_line(struct screen_picture *picture, const char *text, bool is_marked);
void screen_show(struct screen_picture *picture);

/* The number of bytes of UTF-8 text that fill at most so many columns, one per character. */
size_t screen_cut(const char *text, int columns);

#endif
