/* SPDX-License-Identifier: MIT */
/* A plug-in that uses the run loop of whatever program loads it. */
#include <runloop/runloop.h>

#include <stdio.h>
#include <stdlib.h>

/* The host's function of that address is called by a constructor, while the dynamic linker's lock is held. */
__attribute__((constructor)) static void load(void) {
    const char *address = getenv("PLUGIN_LOADS");
    if (address) ((void (*)(void))strtoull(address, NULL, 10))();
}

RLRunLoopRef plugin_main_loop(void) { return RLGetMain(); }

static void fire(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    printf("plugin: its timer fired\n");
    fflush(stdout);
    RLStop(RLGetMain());
}

void plugin_add_timer(void) {
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0, 0, 0, fire, NULL);
    RLAddTimer(RLGetMain(), timer, kRLDefaultMode);
    RLRelease(timer);
}
