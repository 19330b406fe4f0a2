/* SPDX-License-Identifier: MIT */
/* Every pair of calls that can meet on one thing, made from a list of calls for each kind of thing.
 *
 * For each family: every two calls, on two threads, while the loop runs; every call in a callback against every call of another
 * thread; what is async-signal-safe in a signal handler on the loop's thread, against the loop's own calls; every call against the
 * end of the loop's thread; every call against a fork, whose child makes each call that changes something. */
#define _GNU_SOURCE
#include "../program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OTHER = 1,    /* another thread may make it */
    CALLBACK = 2, /* so may a callback of the loop */
    HANDLER = 4,  /* and a signal handler */
    CHANGES = 8,  /* the child of a fork makes it as well */
    END = 16      /* it may meet the end of the loop's thread */
};

struct made_call {
    const char *name, *text;
    int where;
};

struct family {
    const char *name, *rules;
    /* %s: what the callback does. */
    const char *items, *items_with_callback;
    const char *before, *body; /* of the loop's thread */
    const char *rest;          /* more threads */
    struct made_call calls[12];
};

enum { EVERYWHERE = OTHER | CALLBACK | CHANGES | END };

static const struct family families[] = {
    {"source", "S-SRC-18 S-SRC-25 S-SRC-27 S-THR-1", "A=source", "A=source{%s}", "keep; add A; signal A", "run 50", "M: loop / once",
     {{"signal", "signal A; wake L", EVERYWHERE | HANDLER},
      {"add", "add A L", EVERYWHERE},
      {"remove", "remove A L", EVERYWHERE},
      {"addmode", "add A L m", EVERYWHERE},
      {"addcommon", "add A L common", EVERYWHERE},
      {"removecommon", "remove A L common", OTHER | CALLBACK | END},
      {"addloop", "add A M; wake M", OTHER | CALLBACK | END},
      {"invalidate", "invalidate A", EVERYWHERE},
      {"look", "contains A L; signalled A; valid A; describe A", OTHER | CALLBACK}}},
    {"inbox", "S-PORT-13 S-SRC-41 S-THR-1", "A=inbox", "A=inbox{%s}", "keep; add A; signal A", "run 50", "M: loop / once",
     {{"send", "signal A", EVERYWHERE},
      {"sendwait", "limit A 1; signal A 5", OTHER},
      {"add", "add A L", EVERYWHERE},
      {"remove", "remove A L", EVERYWHERE},
      {"addloop", "add A M; wake M", OTHER | CALLBACK | END},
      {"endsource", "endsource A", OTHER | CALLBACK},
      {"invalidate", "invalidate A", EVERYWHERE},
      {"limit", "limit A 9", OTHER | CALLBACK},
      {"look", "contains A L; valid A; describe A", OTHER | CALLBACK}}},
    {"user", "S-KEV-7 S-KEV-8 S-THR-1", "A=user", "A=user{%s}", "keep; add A; signal A", "run 50", "M: loop / once",
     {{"trigger", "signal A", EVERYWHERE | HANDLER},
      {"add", "add A L", EVERYWHERE},
      {"remove", "remove A L", EVERYWHERE},
      {"addloop", "add A M; wake M", OTHER | CALLBACK | END},
      {"invalidate", "invalidate A", EVERYWHERE},
      {"disable", "disable A", OTHER | CALLBACK},
      {"enable", "enable A", OTHER | CALLBACK}}},
    {"port", "S-SRC-41 S-SRC-47 S-THR-1", "A=port", "A=port{%s}", "keep; add A; signal A", "run 50", "M: loop / once",
     {{"bytes", "signal A", OTHER | END},
      {"add", "add A L", OTHER | CALLBACK | END},
      {"remove", "remove A L", OTHER | CALLBACK | END},
      {"addmode", "add A L m", OTHER | CALLBACK},
      {"addloop", "add A M", OTHER | CALLBACK | END},
      {"invalidate", "invalidate A", OTHER | CALLBACK | END},
      {"wake", "wake L", OTHER | HANDLER}}},
    {"descriptor", "S-FD-3 S-FD-7 S-FD-11 S-THR-1", "A=descriptor", "A=descriptor{%s}", "keep; add A; signal A", "run 50", "",
     {{"enable", "enable A", OTHER | CALLBACK | CHANGES},
      {"disable", "disable A", OTHER | CALLBACK | CHANGES},
      {"bytes", "signal A", OTHER | END},
      {"remove", "remove A L", EVERYWHERE},
      {"invalidate", "invalidate A", EVERYWHERE},
      {"endsource", "endsource A", OTHER | CALLBACK | CHANGES}}},
    {"message", "S-MSG-34 S-MSG-36 S-THR-1", "P=message", "P=message{%s}", "keep; add P; signal P", "run 5", "",
     {{"send", "signal P", OTHER | CALLBACK},
      {"ask", "loop; ask P", OTHER},
      {"remove", "remove P L", OTHER | CALLBACK | END},
      {"endsource", "endsource P", OTHER | CALLBACK},
      {"invalidate", "invalidate P", OTHER | CALLBACK | END},
      {"endremote", "endremote P", OTHER | CALLBACK},
      {"rename", "rename P", OTHER | CALLBACK},
      {"newremote", "newremote P", OTHER | CALLBACK},
      {"look", "context P; valid P; describe P", OTHER | CALLBACK}}},
    {"request", "S-MSG-48 S-MSG-49 S-MSG-50 S-THR-1", "P=message R=request Q=request", "P=message R=request{%s} Q=request", "keep; begin R P",
     "wake M; run 5", "M: keep; add P / run 5",
     {{"begin", "begin Q P L", OTHER | CALLBACK | END},
      {"cancel", "cancelbegun R", OTHER | CALLBACK | END},
      {"ask", "loop; ask P", OTHER},
      {"send", "signal P", OTHER | CALLBACK},
      {"remove", "remove P M", OTHER},
      {"endsource", "endsource P", OTHER},
      {"invalidate", "invalidate P", OTHER | CALLBACK | END},
      {"endremote", "endremote P", OTHER | CALLBACK | END},
      {"rename", "rename P", OTHER | CALLBACK},
      {"newremote", "newremote P", OTHER | CALLBACK},
      {"look", "valid P; describe P; items L", OTHER | CALLBACK}}},
    {"socket", "S-SOCK-9 S-SOCK-61 S-THR-1", "A=socket", "A=socket{%s}", "keep; add A; signal A", "run 5", "",
     {{"bytes", "signal A", OTHER},
      {"send", "send A", OTHER | CALLBACK | END},
      {"close", "close A", OTHER | CALLBACK | END},
      {"half", "close A 1", OTHER},
      {"abort", "close A 2", OTHER},
      {"disable", "disable A", OTHER | CALLBACK},
      {"enable", "enable A", OTHER | CALLBACK},
      {"remove", "remove A L", OTHER | CALLBACK | END},
      {"endsource", "endsource A", OTHER | CALLBACK},
      {"invalidate", "invalidate A", OTHER | CALLBACK | END},
      {"look", "valid A; describe A", OTHER | CALLBACK}}},
    /* What goes past the loop, against what the loop does. */
    {"stream", "S-SOCK-9 S-SOCK-58 S-SOCK-61 S-THR-1", "A=socket", "A=socket{%s}", "keep; add A; signal A", "run 5", "",
     {{"sendnow", "sendnow A", OTHER | CALLBACK | END},
      {"senddata", "senddata A 1", OTHER | CALLBACK | END},
      {"descriptors", "senddescriptors A; give A", OTHER | CALLBACK},
      {"receive", "receive A", OTHER | CALLBACK | END},
      {"flags", "flags A; flags A 1", OTHER | CALLBACK},
      {"look", "options A 1; addresses A; othersource A", OTHER | CALLBACK},
      {"samefile", "samefile A", OTHER | CALLBACK},
      {"write", "send A", OTHER},
      {"close", "close A", OTHER},
      {"remove", "remove A L", OTHER},
      {"invalidate", "invalidate A", OTHER}}},
    {"connection", "S-SOCK-9 S-SOCK-30 S-SOCK-68 S-THR-1", "A=listener D=dialer", "A=listener{%s} D=dialer{%s}", "keep; add A; add D", "run 5", "",
     {{"visit", "visit A", OTHER | CALLBACK | END},
      {"connect", "connect D A", OTHER | CALLBACK | END},
      {"connectnow", "connect D A 1", OTHER | CALLBACK},
      {"listen", "listen A", OTHER},
      {"address", "setaddress A; addresses A", OTHER},
      {"close", "close D", OTHER | CALLBACK | END},
      {"remove", "remove A L; remove D L", OTHER | CALLBACK | END},
      {"invalidate", "invalidate A", OTHER | CALLBACK | END},
      {"enddialer", "invalidate D", OTHER | CALLBACK | END},
      {"look", "addresses D; addresses A; valid D", OTHER | CALLBACK}}},
    {"vnode", "S-KEV-10 S-KEV-13 S-THR-1", "A=vnode", "A=vnode{%s}", "keep; add A; signal A", "run 5", "",
     {{"bytes", "signal A", OTHER | END},
      {"twin", "twin A", EVERYWHERE},
      {"disable", "disable A", OTHER | CALLBACK | CHANGES},
      {"remove", "remove A L", EVERYWHERE},
      {"invalidate", "invalidate A", EVERYWHERE}}},
    {"foreign", "S-FRN-3 S-FRN-5 S-THR-1", "p=post A=source t=timer:3 I=user", "p=post A=source{%s} t=timer:3 I=user",
     "keep; add A; add t; add I", "foreign t", "",
     {{"signal", "signal A; wake L", OTHER | HANDLER},
      {"trigger", "signal I", OTHER},
      {"post", "post p L; wake L", OTHER},
      {"wake", "wake L", OTHER | HANDLER},
      {"stop", "stop L", OTHER},
      {"date", "date t 1", OTHER},
      {"remove", "remove A L", OTHER}}},
    {"thread", "S-THREAD-1 S-THREAD-5 S-THR-1", "w=thread p=post", "w=thread{%s} p=post", "loop", "start w; join w", "",
     {{"start", "start w", OTHER},
      {"join", "join w", OTHER},
      {"cancel", "cancel w", OTHER | CALLBACK},
      {"end", "endthread w", OTHER | CALLBACK},
      {"stop", "stopthread w", OTHER | CALLBACK},
      {"look", "threadloop w; describe w", OTHER | CALLBACK}}},
    {"timer", "S-TMR-13 S-TMR-41 S-TMR-46 S-THR-1", "t=timer:3", "t=timer:3{%s}", "keep; add t", "run 50", "M: loop / once",
     {{"add", "add t L", EVERYWHERE},
      {"remove", "remove t L", EVERYWHERE},
      {"addmode", "add t L m", EVERYWHERE},
      {"addcommon", "add t L common", OTHER | CALLBACK | END},
      {"removecommon", "remove t L common", OTHER | CALLBACK},
      {"addloop", "add t M", OTHER | CALLBACK | END},
      {"date", "date t 1", EVERYWHERE},
      {"later", "date t 9", OTHER | CALLBACK},
      {"invalidate", "invalidate t", EVERYWHERE},
      {"look", "tolerance t 0.1; firedate t; nextfire L; contains t L", OTHER | CALLBACK | END}}},
    {"repeating", "S-TMR-29 S-TMR-38 S-TMR-41 S-THR-1", "t=timer:3+", "t=timer:3+{%s}", "keep; add t", "run 5", "",
     {{"remove", "remove t L", EVERYWHERE},
      {"date", "date t 1", EVERYWHERE},
      {"tolerance", "tolerance t 0.5", OTHER | CALLBACK},
      {"invalidate", "invalidate t", EVERYWHERE},
      {"look", "firedate t; nextfire L", OTHER | CALLBACK}}},
    {"observer", "S-OBS-10 S-OBS-16 S-THR-8", "o=observer:4+", "o=observer:4+{%s}", "keep; add o", "once", "M: loop / once",
     {{"add", "add o L", EVERYWHERE},
      {"remove", "remove o L", EVERYWHERE},
      {"addmode", "add o L m", EVERYWHERE},
      {"addcommon", "add o L common", OTHER | CALLBACK | END},
      {"addloop", "add o M", OTHER | CALLBACK | END},
      {"invalidate", "invalidate o", EVERYWHERE},
      {"look", "contains o L; valid o; describe o", OTHER | CALLBACK}}},
    {"once", "S-OBS-7 S-OBS-16 S-THR-8", "o=observer:4", "o=observer:4{%s}", "keep; add o", "once", "",
     {{"remove", "remove o L", EVERYWHERE}, {"add", "add o L", EVERYWHERE}, {"invalidate", "invalidate o", EVERYWHERE}}},
    {"post", "S-BLK-3 S-BLK-18 S-PERF-1 S-PERF-6 S-THR-1", "p=post q=post", "p=post{%s} q=post", "keep; post p", "run 50", "",
     {{"post", "post q L; wake L", EVERYWHERE},
      {"postcommon", "post q L common; wake L", OTHER | CALLBACK | END},
      {"postlist", "postin q L m; wake L", OTHER | CALLBACK},
      {"onloop", "onloop q L", EVERYWHERE},
      {"wait", "onloop q L 1", OTHER | END},
      {"order", "order q L 1", EVERYWHERE},
      {"cancelorder", "cancelorder q L", OTHER | CALLBACK}}},
    {"loop", "S-WAKE-1 S-STOP-8 S-MODE-12 S-LOOP-12 S-THR-1", "t=timer:3 A=source", "t=timer:3{%s} A=source", "add A common; add t", "run 50", "",
     {{"wake", "wake L", EVERYWHERE | HANDLER},
      {"stop", "stop L", EVERYWHERE | HANDLER},
      {"common", "common L m", EVERYWHERE},
      {"look", "waiting L; modes L; mode L", OTHER | CALLBACK | END},
      {"spin", "spin L 0.00002", OTHER},
      {"describe", "describe", CALLBACK},
      {"empty", "empty", CALLBACK},
      {"nested", "once", CALLBACK},
      {"other", "once m", CALLBACK}}},
    {"insight", "S-SEE-2 S-SEE-4 S-SEE-5 S-STAT-3 S-STAT-4 S-THR-1", "A=source t=timer:3 o=observer:4+", "A=source{%s} t=timer:3 o=observer:4+",
     "keep; measure L; add A; add t; add o; signal A", "run 50", "",
     {{"name", "name A; name t; name L", EVERYWHERE},
      {"items", "items L", OTHER | CALLBACK | END},
      {"dump", "describe L", OTHER | CALLBACK | END},
      {"measure", "unmeasure L; measure L", EVERYWHERE},
      {"unmeasure", "unmeasure L", OTHER | CALLBACK},
      {"statistics", "statistics L", OTHER | END},
      {"remove", "name A; remove A L", EVERYWHERE},
      {"invalidate", "name t; invalidate t; invalidate A", EVERYWHERE}}},
};

enum { MOST = 3000 };
static struct scenario made[MOST + 1];
static int made_count;

static void make(const struct family *family, const char *role, const char *one, const char *other, const char *items,
                 const char *threads) {
    if (made_count == MOST) abort();
    char *name = NULL, text[700];
    /* A second loop only where it is named. */
    bool needs_rest = strstr(threads, " M") != NULL && *family->rest;
    snprintf(text, sizeof text, "%s%s%s", threads, needs_rest ? " | " : "", needs_rest ? family->rest : "");
    if (asprintf(&name, "%s.%s%s%s_x_%s", family->name, role, *role ? "_" : "", one, other) < 0) abort();
    made[made_count++] = (struct scenario){name, family->rules, strdup(items), strdup(text)};
}

static void make_pairs(const struct family *family) {
    char items[200], threads[600];
    for (const struct made_call *one = family->calls; one->name; one++) {
        for (const struct made_call *other = family->calls; other->name; other++) {
            if (one->where & OTHER && other->where & OTHER && other >= one) {
                snprintf(threads, sizeof threads, "L: %s / %s | T: %s | U: %s", family->before, family->body,
                         one->text, other->text);
                make(family, "", one->name, other->name, family->items, threads);
            }
            if (one->where & CALLBACK && other->where & OTHER) {
                snprintf(items, sizeof items, family->items_with_callback, one->text, one->text);
                snprintf(threads, sizeof threads, "L: %s / %s | T: %s", family->before, family->body, other->text);
                make(family, "in_callback", one->name, other->name, items, threads);
            }
            if (one->where & HANDLER && other->where & (OTHER | CALLBACK)) {
                snprintf(threads, sizeof threads, "L: %s / %s; %s | L!: %s", family->before, other->text, family->body,
                         one->text);
                make(family, "in_handler", one->name, other->name, family->items, threads);
            }
            if (one->where & CHANGES && other->where & CHANGES) {
                snprintf(threads, sizeof threads, "L: %s / fork{%s}; %s | T: %s", family->before, one->text, family->body,
                         other->text);
                make(family, "in_child", one->name, other->name, family->items, threads);
            }
        }
        if (one->where & END) {
            snprintf(threads, sizeof threads, "L: %s / end | T: %s", family->before, one->text);
            make(family, "", one->name, "end", family->items, threads);
        }
    }
}

const struct scenario *family_scenarios(void) {
    if (made_count == 0)
        for (size_t i = 0; i < sizeof families / sizeof *families; i++) make_pairs(&families[i]);
    return made;
}
