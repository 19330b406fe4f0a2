/* SPDX-License-Identifier: MIT */
/*
 * A client of Wayland: lists what the compositor has, and measures how long it takes to answer, once a tick of a timer.
 * It finds the compositor as every client does, by WAYLAND_DISPLAY and XDG_RUNTIME_DIR.
 */
#include <runloop/adapters/wayland.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wayland-client-protocol.h>

static void found(void *info, struct wl_registry *registry, uint32_t name, const char *interface, uint32_t version) {
    (void)info, (void)registry, (void)name;
    printf("it has %s, version %u\n", interface, version);
}

static void gone(void *info, struct wl_registry *registry, uint32_t name) { (void)info, (void)registry, (void)name; }

static void answered(void *info, struct wl_callback *callback, uint32_t data) {
    static int answers;
    RLAbsoluteTime *asked = info;
    (void)data;
    wl_callback_destroy(callback);
    printf("answer %d after %.6f s\n", ++answers, RLAbsoluteTimeGetCurrent() - *asked);
    if (answers == 3) RLStop(RLGetCurrent());
}

static RLAbsoluteTime asked;

static void tick(RLTimerRef timer, void *display) {
    static const struct wl_callback_listener listener = {answered};
    (void)timer;
    asked = RLAbsoluteTimeGetCurrent();
    wl_callback_add_listener(wl_display_sync(display), &listener, &asked);
    /* It is sent before the loop waits. */
}

static void lost(struct wl_display *display, int error, void *info) {
    (void)display, (void)info;
    fprintf(stderr, "wayland: %s\n", strerror(error));
    exit(1);
}

int main(void) {
    static const struct wl_registry_listener listener = {found, gone};
    struct wl_display *display = wl_display_connect(NULL);
    RLWaylandRef place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, NULL);
    if (!place) return fputs("wayland: no compositor\n", stderr), 1;
    struct wl_registry *registry = wl_display_get_registry(display);
    wl_registry_add_listener(registry, &listener, NULL);
    RLTimerContext context = {.info = display};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.05, 0.05, 0, 0, tick, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRun();
    RLTimerInvalidate(timer), RLRelease(timer);
    wl_registry_destroy(registry);
    RLWaylandDetach(place);
    wl_display_disconnect(display);
    return 0;
}
