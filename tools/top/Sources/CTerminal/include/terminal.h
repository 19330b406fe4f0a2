/* SPDX-License-Identifier: MIT */
/* The screen, by ncurses(3). It is put back at the end, also by SIGINT and SIGTERM. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

enum terminal_style { TERMINAL_PLAIN, TERMINAL_BOLD, TERMINAL_REVERSE, TERMINAL_DIM };

/* Keys beside characters. */
enum terminal_key { TERMINAL_NONE = -1, TERMINAL_UP = -2, TERMINAL_DOWN = -3, TERMINAL_PAGE_UP = -4, TERMINAL_PAGE_DOWN = -5,
                    TERMINAL_RESIZED = -6, TERMINAL_ENTER = -7, TERMINAL_ESCAPE = -8, TERMINAL_BACKSPACE = -9, TERMINAL_HOME = -10, TERMINAL_GONE = -11 };

/* Takes the user's character set; for the next function. Text that is not for the screen is always UTF-8. */
void terminal_locale(bool is_screen);
/* How many columns a character takes; negative for one that does not print. */
int terminal_width(uint32_t character);

/* False if the terminal is of no known kind, or its cursor cannot be placed. */
bool terminal_begin(void);
void terminal_end(void);
int terminal_rows(void);
int terminal_columns(void);
void terminal_clear(void);
/* The text is printable. What is beyond the edge is cut. */
void terminal_put(int row, int column, int style, const char *text);
void terminal_show(void);
/* A key, TERMINAL_NONE if none comes in time, or TERMINAL_GONE if the terminal exists no more. */
int terminal_key(int milliseconds);

#endif
