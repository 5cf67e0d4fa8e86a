/*
 * Uses a terminal as a screen: it reads keys as they are typed, and draws pictures, each over the
 * one before.  The old contents come back at the end, and while the process is stopped (Ctrl-Z).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/writer.h"

/* Is standard output a terminal to draw on, and standard input one to type on? */
bool screen_is_there(void);

/* Returns false, with errno, if the terminal cannot be used. */
bool screen_begin(void);
void screen_end(void);

/* Wait for a key.  Returns the key, or what happened instead. */
enum {
    SCREEN_NOTHING = 0, /* nothing, until the time was over */
    SCREEN_RESIZED = -1,
    SCREEN_OVER = -2, /* by a signal, or the input ended */
    SCREEN_UP = -3,
    SCREEN_DOWN = -4
};
int screen_wait(int milliseconds);

/* The signal that ended it; 0 if none did. */
int screen_signal(void);

/* Draw a picture.  Lines are cut at the width, and lines beyond the height are left out. */
struct screen_picture {
    struct cushim_writer out;
    int columns, rows, n_lines;
};
void screen_draw(struct screen_picture *picture);
void screen_line(struct screen_picture *picture, const char *text, bool is_marked);
void screen_show(struct screen_picture *picture);

/* The number of bytes of a UTF-8 text that fit into `columns`.  Each character takes one. */
size_t screen_cut(const char *text, int columns);
