/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define NCURSES_WIDECHAR 1
#include "terminal.h"

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>
#include <wchar.h>

void terminal_locale(bool is_screen) {
    setlocale(LC_ALL, "");
    if (!is_screen && MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

int terminal_width(uint32_t character) { return wcwidth((wchar_t)character); }

bool terminal_begin(void) {
    int error;
    /* A terminal whose cursor cannot be placed would show everything in one line. */
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK || !cursor_address) return false;
    if (!newterm(NULL, stdout, stdin)) return false;
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    return true;
}

void terminal_end(void) { endwin(); }
int terminal_rows(void) { return LINES; }
int terminal_columns(void) { return COLS; }
void terminal_clear(void) { erase(); }

void terminal_put(int row, int column, int style, const char *text) {
    static const attr_t attributes[] = {A_NORMAL, A_BOLD, A_REVERSE, A_DIM};
    if (row < 0 || row >= LINES || column < 0 || column >= COLS) return;
    attrset(attributes[style]);
    mvaddstr(row, column, text);
    attrset(A_NORMAL);
}

void terminal_show(void) { refresh(); }

int terminal_key(int milliseconds) {
    wint_t key;
    timeout(milliseconds);
    const int kind = get_wch(&key);
    if (kind == ERR) {
        /* Where SIGHUP is ignored nothing else ends a program whose terminal is gone, and no read waits any more. */
        struct pollfd input = {STDIN_FILENO, POLLIN, 0};
        const bool is_gone = poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL));
        return is_gone ? TERMINAL_GONE : TERMINAL_NONE;
    }
    if (kind == OK) {
        switch (key) {
        case 27: return TERMINAL_ESCAPE;
        case '\r':
        case '\n': return TERMINAL_ENTER;
        case 8:
        case 127: return TERMINAL_BACKSPACE;
        default: return (int)key;
        }
    }
    switch (key) {
    case KEY_UP: return TERMINAL_UP;
    case KEY_DOWN: return TERMINAL_DOWN;
    case KEY_PPAGE: return TERMINAL_PAGE_UP;
    case KEY_NPAGE: return TERMINAL_PAGE_DOWN;
    case KEY_RESIZE: return TERMINAL_RESIZED;
    case KEY_ENTER: return TERMINAL_ENTER;
    case KEY_BACKSPACE: return TERMINAL_BACKSPACE;
    case KEY_HOME: return TERMINAL_HOME;
    default: return TERMINAL_NONE;
    }
}
