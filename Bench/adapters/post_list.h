/* SPDX-License-Identifier: MIT */
/*
 * What libraries without a call for it need to post functions: a list under a mutex. As their
 * manuals advise, a poster wakes the loop only if the list was empty, and the loop takes the whole
 * list.
 */
#ifndef BENCH_POST_LIST_H
#define BENCH_POST_LIST_H

#include "../adapter.h"

#include <pthread.h>
#include <stdlib.h>

struct posted {
    struct posted *next;
    function call;
    void *info;
};
struct post_list {
    pthread_mutex_t lock;
    struct posted *first, **last; /* guarded by lock */
};

static inline void post_list_init(struct post_list *list) {
    pthread_mutex_init(&list->lock, NULL);
    list->first = NULL;
    list->last = &list->first;
}

/* Returns whether the loop must be woken. */
static inline bool post_list_put(struct post_list *list, function call, void *info) {
    struct posted *item = malloc(sizeof *item);
    item->next = NULL;
    item->call = call;
    item->info = info;
    pthread_mutex_lock(&list->lock);
    bool was_empty = list->first == NULL;
    *list->last = item;
    list->last = &item->next;
    pthread_mutex_unlock(&list->lock);
    return was_empty;
}

static inline void post_list_run(struct post_list *list) {
    pthread_mutex_lock(&list->lock);
    struct posted *item = list->first;
    list->first = NULL;
    list->last = &list->first;
    pthread_mutex_unlock(&list->lock);
    while (item) {
        struct posted *next = item->next;
        item->call(item->info);
        free(item);
        item = next;
    }
}

#endif
