/* SPDX-License-Identifier: MIT */
/*
 * Frames: a program whose window library is pumped, as SDL's and GLFW's are, draws sixty frames a second. A display timer of the
 * run loop is the clock of the frames; each frame takes the window's events without waiting, moves the world and draws. Between
 * frames the loop waits, and serves what else there is at once: here a worker thread's result. With SDL take_event is
 * SDL_PollEvent, with GLFW it is glfwPollEvents. The argument is the number of frames.
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <stdlib.h>

/* The window library of this example, which has five keys. */
enum { NO_EVENT, KEY };

static int take_event(void) {
    static int keys = 5;
    return keys > 0 ? keys--, KEY : NO_EVENT;
}

typedef struct Game {
    RLAbsoluteTime start, last;
    double interval;
    long frames, wanted, skipped, keys, early;
    bool has_loaded;
} Game;

static void draw_frame(RLTimerRef timer, void *info) {
    Game *game = info;
    RLAbsoluteTime date = RLTimerGetNextFireDate(timer), now = RLAbsoluteTimeGetCurrent();
    /* A frame that took too long is not made up for: the grid goes on, and the world moves by the time that has passed. */
    if (game->frames > 0) game->skipped += (long)((date - game->last) / game->interval + 0.5) - 1;
    if (now < date - 1e-6) game->early++;
    game->last = date;
    while (take_event() == KEY) game->keys++;
    if (++game->frames >= game->wanted && game->has_loaded) RLStop(RLGetCurrent());
}

static void loaded(void *info) {
    Game *game = info;
    game->has_loaded = true;
    printf("loaded, between two frames\n");
}

static void load(void *info) {
    /* Files, decoding, a network: whatever takes long is on another thread, and its result comes to the loop by itself. */
    RLPerformFunction(RLGetMain(), kRLDefaultMode, loaded, info, NULL);
    RLWakeUp(RLGetMain());
}

int main(int count, char **arguments) {
    Game game = {.interval = 1.0 / 60, .wanted = count > 1 ? atol(arguments[1]) : 60};
    RLTimerContext context = {.info = &game};
    game.start = RLAbsoluteTimeGetCurrent();
    /* No tolerance: a frame is for the next refresh of the screen. Where the window system tells of refreshes, as Wayland's frame
     * callbacks do, set the timer's next date by them. */
    RLTimerRef display = RLTimerCreate(game.start + game.interval, game.interval, 0, 0, draw_frame, &context);
    RLAddTimer(RLGetCurrent(), display, kRLCommonModes); /* in a menu's or a resize's mode too */
    RLPerformInBackground(load, &game, NULL);
    RLRun();
    printf("%ld frames, %ld keys, %ld early, %s\n", game.frames, game.keys, game.early, game.has_loaded ? "loaded" : "not loaded");
    printf("%.2f s for %ld intervals, %ld of them skipped\n", game.last - game.start, game.frames + game.skipped, game.skipped);
    RLTimerInvalidate(display), RLRelease(display);
    return 0;
}
