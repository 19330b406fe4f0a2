/* SPDX-License-Identifier: MIT */
/*
 * S-LOOP-4: the main loop is the initial thread's, also when another thread loads the library and
 * calls it first. This program is not linked to the library; its argument is the library's file.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef void *(*GetLoop)(void);

static const char *library_path;
static GetLoop get_main, get_current;
static void *main_seen_by_thread, *loop_of_thread;

static void *load_and_call(void *unused) {
    void *library = dlopen(library_path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return unused;
    }
    *(void **)&get_main = dlsym(library, "RLGetMain");
    *(void **)&get_current = dlsym(library, "RLGetCurrent");
    if (!get_main || !get_current) return unused;
    loop_of_thread = get_current();
    main_seen_by_thread = get_main();
    return unused;
}

static int check(int truth, const char *sentence) {
    if (!truth) fprintf(stderr, "not so: %s\n", sentence);
    return !truth;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 2) return 2;
    library_path = argv[1];
    if (pthread_create(&thread, NULL, load_and_call, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    if (check(get_main && get_current, "the library loads on a thread")) return 1;
    int wrong = check(main_seen_by_thread != NULL, "the thread sees a main loop");
    wrong += check(loop_of_thread != main_seen_by_thread, "the loading thread's loop is not main");
    wrong += check(get_current() == main_seen_by_thread, "the initial thread's loop is main");
    wrong += check(get_main() == main_seen_by_thread, "the main loop stays the same");
    return wrong != 0;
}
