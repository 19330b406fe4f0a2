/* SPDX-License-Identifier: MIT */
/* See cf_shim.h. Needs -fblocks and the toolchain's CoreFoundation headers. */
#define _GNU_SOURCE
#include "cf_shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Exported by CoreFoundation but in none of its headers. */
extern Boolean CFRunLoopSourceIsSignalled(CFRunLoopSourceRef source);

const char *const kRLDefaultMode = "kCFRunLoopDefaultMode";
const char *const kRLCommonModes = "kCFRunLoopCommonModes";
const RLTimeInterval kRLAbsoluteTimeIntervalSince1970 = 978307200.0;

/* Interned names */

typedef struct Name {
    struct Name *next;
    CFStringRef string;
    char *text;
} Name;

static pthread_mutex_t namesLock = PTHREAD_MUTEX_INITIALIZER;
static Name *names; /* guarded by namesLock */

static CFStringRef stringFromText(const char *text) {
    CFStringRef string = CFStringCreateWithCString(kCFAllocatorDefault, text, kCFStringEncodingUTF8);
    if (!string) string = CFStringCreateWithCString(kCFAllocatorDefault, text, kCFStringEncodingISOLatin1);
    return string;
}

static char *textFromString(CFStringRef string) {
    CFIndex size = CFStringGetMaximumSizeForEncoding(CFStringGetLength(string), kCFStringEncodingUTF8) + 1;
    char *text = malloc((size_t)size);
    if (!CFStringGetCString(string, text, size, kCFStringEncodingUTF8)) text[0] = 0;
    return text;
}

static const Name *intern(const char *text) {
    pthread_mutex_lock(&namesLock);
    Name *n = names;
    while (n && strcmp(n->text, text) != 0) n = n->next;
    if (!n) {
        n = malloc(sizeof *n);
        n->text = strdup(text);
        n->string = stringFromText(text);
        n->next = names;
        names = n;
    }
    pthread_mutex_unlock(&namesLock);
    return n;
}

CFStringRef RLShimString(RLMode mode) {
    if (!mode) return NULL;
    if (mode == kRLDefaultMode) return kCFRunLoopDefaultMode;
    if (mode == kRLCommonModes) return kCFRunLoopCommonModes;
    return intern(mode)->string;
}

RLMode RLShimMode(CFStringRef string) {
    if (!string) return NULL;
    if (CFEqual(string, kCFRunLoopDefaultMode)) return kRLDefaultMode;
    if (string == kCFRunLoopCommonModes) return kRLCommonModes;
    char *text = textFromString(string);
    RLMode mode = intern(text)->text;
    free(text);
    return mode;
}

/* Trampolines */

/* schedule, cancel and copyDescription differ in a string argument or result. The info pointer must
 * reach CoreFoundation untouched, because sources are compared by it, so the client's function is
 * found by the trampoline's own address: each kind has SLOTS trampolines, and each distinct client
 * function takes one. */
#define SLOTS 64
#define X16(M, h) M(h##0) M(h##1) M(h##2) M(h##3) M(h##4) M(h##5) M(h##6) M(h##7) \
                  M(h##8) M(h##9) M(h##A) M(h##B) M(h##C) M(h##D) M(h##E) M(h##F)
#define X64(M) X16(M, 0x0) X16(M, 0x1) X16(M, 0x2) X16(M, 0x3)

typedef void (*ModeFunction)(void *info, RLRunLoopRef rl, RLMode mode);
typedef void (*CFModeFunction)(void *info, CFRunLoopRef rl, CFRunLoopMode mode);
typedef char *(*TextFunction)(const void *info);
typedef CFStringRef (*CFTextFunction)(const void *info);

static pthread_mutex_t slotsLock = PTHREAD_MUTEX_INITIALIZER;
static ModeFunction modeFunctions[SLOTS]; /* guarded by slotsLock when written; a filled slot never changes */
static TextFunction textFunctions[SLOTS]; /* as above */

#define MODE_TRAMPOLINE(n) \
    static void modeTrampoline##n(void *info, CFRunLoopRef rl, CFRunLoopMode mode) { \
        modeFunctions[n](info, (RLRunLoopRef)rl, RLShimMode(mode)); \
    }
#define TEXT_TRAMPOLINE(n) \
    static CFStringRef textTrampoline##n(const void *info) { \
        char *text = textFunctions[n](info); \
        CFStringRef string = text ? stringFromText(text) : NULL; \
        free(text); \
        return string; \
    }
#define MODE_NAME(n) modeTrampoline##n,
#define TEXT_NAME(n) textTrampoline##n,

X64(MODE_TRAMPOLINE)
X64(TEXT_TRAMPOLINE)
static const CFModeFunction modeTrampolines[SLOTS] = {X64(MODE_NAME)};
static const CFTextFunction textTrampolines[SLOTS] = {X64(TEXT_NAME)};

static CFModeFunction toCFMode(ModeFunction f) {
    if (!f) return NULL;
    pthread_mutex_lock(&slotsLock);
    int i = 0;
    while (i < SLOTS && modeFunctions[i] && modeFunctions[i] != f) i++;
    if (i == SLOTS) abort();
    modeFunctions[i] = f;
    pthread_mutex_unlock(&slotsLock);
    return modeTrampolines[i];
}

static CFTextFunction toCFText(TextFunction f) {
    if (!f) return NULL;
    pthread_mutex_lock(&slotsLock);
    int i = 0;
    while (i < SLOTS && textFunctions[i] && textFunctions[i] != f) i++;
    if (i == SLOTS) abort();
    textFunctions[i] = f;
    pthread_mutex_unlock(&slotsLock);
    return textTrampolines[i];
}

static ModeFunction fromCFMode(CFModeFunction f) {
    for (int i = 0; f && i < SLOTS; i++)
        if (modeTrampolines[i] == f) return modeFunctions[i];
    return NULL;
}

static TextFunction fromCFText(CFTextFunction f) {
    for (int i = 0; f && i < SLOTS; i++)
        if (textTrampolines[i] == f) return textFunctions[i];
    return NULL;
}

/* Handles */

static CFRunLoopRef cfLoop(RLRunLoopRef rl) { return (CFRunLoopRef)rl; }
static CFRunLoopSourceRef cfSource(RLSourceRef s) { return (CFRunLoopSourceRef)s; }
static CFRunLoopObserverRef cfObserver(RLObserverRef o) { return (CFRunLoopObserverRef)o; }
static CFRunLoopTimerRef cfTimer(RLTimerRef t) { return (CFRunLoopTimerRef)t; }

/* base.h */

const char *RLGetVersion(void) { return "0.2.0"; }
RLAbsoluteTime RLAbsoluteTimeGetCurrent(void) { return CFAbsoluteTimeGetCurrent(); }
RLTypeRef RLRetain(RLTypeRef obj) { return obj ? CFRetain(obj) : NULL; }
void RLRelease(RLTypeRef obj) {
    if (obj) CFRelease(obj);
}
/* This CoreFoundation has no CFGetRetainCount: its objects are counted by the Swift runtime, which
 * it loads. */
RLIndex RLGetRetainCount(RLTypeRef obj) {
    size_t (*count)(const void *) = (size_t (*)(const void *))dlsym(RTLD_DEFAULT, "swift_retainCount");
    return obj && count ? (RLIndex)count(obj) : 0;
}
bool RLEqual(RLTypeRef a, RLTypeRef b) { return a && b ? CFEqual(a, b) : a == b; }
RLHashCode RLHash(RLTypeRef obj) { return obj ? CFHash(obj) : 0; }
RLTypeID RLGetTypeIDOf(RLTypeRef obj) { return obj ? CFGetTypeID(obj) : 0; }

char *RLCopyDescription(RLTypeRef obj) {
    if (!obj) return NULL;
    CFStringRef string = CFCopyDescription(obj);
    if (!string) return NULL;
    char *text = textFromString(string);
    CFRelease(string);
    return text;
}

void RLSetLogHandler(void (*handler)(const char *line, void *info), void *info) {
    (void)handler;
    (void)info;
}

/* data.h */

RLTypeID RLDataGetTypeID(void) { return CFDataGetTypeID(); }
RLDataRef RLDataCreate(const void *bytes, size_t length) {
    return (RLDataRef)CFDataCreate(kCFAllocatorDefault, bytes, (CFIndex)length);
}
const void *RLDataGetBytePtr(RLDataRef d) { return d ? CFDataGetBytePtr((CFDataRef)d) : NULL; }
size_t RLDataGetLength(RLDataRef d) { return d ? (size_t)CFDataGetLength((CFDataRef)d) : 0; }

/* loop.h */

RLTypeID RLGetTypeID(void) { return CFRunLoopGetTypeID(); }
RLRunLoopRef RLGetCurrent(void) { return (RLRunLoopRef)CFRunLoopGetCurrent(); }
RLRunLoopRef RLGetMain(void) { return (RLRunLoopRef)CFRunLoopGetMain(); }

char *RLCopyCurrentMode(RLRunLoopRef rl) {
    CFStringRef string = rl ? CFRunLoopCopyCurrentMode(cfLoop(rl)) : NULL;
    if (!string) return NULL;
    char *text = textFromString(string);
    CFRelease(string);
    return text;
}

char **RLCopyAllModes(RLRunLoopRef rl, RLIndex *count) {
    if (count) *count = 0;
    if (!rl) return NULL;
    CFArrayRef array = CFRunLoopCopyAllModes(cfLoop(rl));
    CFIndex n = array ? CFArrayGetCount(array) : 0;
    size_t size = (size_t)(n + 1) * sizeof(char *);
    for (CFIndex i = 0; i < n; i++) {
        char *text = textFromString(CFArrayGetValueAtIndex(array, i));
        size += strlen(text) + 1;
        free(text);
    }
    char **result = malloc(size);
    char *end = (char *)(result + n + 1);
    for (CFIndex i = 0; i < n; i++) {
        char *text = textFromString(CFArrayGetValueAtIndex(array, i));
        result[i] = strcpy(end, text);
        end += strlen(text) + 1;
        free(text);
    }
    result[n] = NULL;
    if (array) CFRelease(array);
    if (count) *count = n;
    return result;
}

void RLAddCommonMode(RLRunLoopRef rl, RLMode mode) {
    if (rl && mode) CFRunLoopAddCommonMode(cfLoop(rl), RLShimString(mode));
}
RLAbsoluteTime RLGetNextTimerFireDate(RLRunLoopRef rl, RLMode mode) {
    return rl && mode ? CFRunLoopGetNextTimerFireDate(cfLoop(rl), RLShimString(mode)) : 0;
}
void RLRun(void) { CFRunLoopRun(); }
RLRunResult RLRunInMode(RLMode mode, RLTimeInterval seconds, bool returnAfterSourceHandled) {
    return (RLRunResult)CFRunLoopRunInMode(RLShimString(mode), seconds, returnAfterSourceHandled);
}
extern Boolean _CFRunLoopFinished(CFRunLoopRef loop, CFStringRef mode);
bool RLIsModeEmpty(RLMode mode) {
    return !mode || _CFRunLoopFinished(CFRunLoopGetCurrent(), RLShimString(mode));
}
bool RLIsWaiting(RLRunLoopRef rl) { return rl && CFRunLoopIsWaiting(cfLoop(rl)); }
void RLWakeUp(RLRunLoopRef rl) {
    if (rl) CFRunLoopWakeUp(cfLoop(rl));
}
void RLStop(RLRunLoopRef rl) {
    if (rl) CFRunLoopStop(cfLoop(rl));
}
/* CoreFoundation's main loop serves the queue from the start. */
bool RLAttachMainQueue(void) { return true; }
void RLSetSpinLimit(RLRunLoopRef rl, RLTimeInterval seconds) {
    (void)rl;
    (void)seconds;
}

/* perform.h */

/* A block whose disposal calls the client's release. Block_copy of a stack block runs the copy
 * helper only; the dispose helper runs once, when the last reference to the heap copy goes. */
typedef struct PerformBlock {
    void *isa;
    int flags;
    int reserved;
    void (*invoke)(struct PerformBlock *block);
    const struct PerformDescriptor *descriptor;
    void (*perform)(void *info);
    void (*release)(void *info);
    void *info;
} PerformBlock;

struct PerformDescriptor {
    unsigned long reserved;
    unsigned long size;
    void (*copy)(void *to, const void *from);
    void (*dispose)(const void *block);
};

extern void *_NSConcreteStackBlock[32];

static void performInvoke(PerformBlock *block) { block->perform(block->info); }
static void performCopy(void *to, const void *from) {
    (void)to;
    (void)from;
}
static void performDispose(const void *block) {
    const PerformBlock *b = block;
    if (b->release) b->release(b->info);
}
static const struct PerformDescriptor performDescriptor = {0, sizeof(PerformBlock), performCopy, performDispose};

static void queueBlock(RLRunLoopRef rl, CFTypeRef modes, void (*perform)(void *), void *info,
                       void (*release)(void *)) {
    if (!rl || !modes || !perform) {
        if (release) release(info);
        return;
    }
    PerformBlock block = {_NSConcreteStackBlock, 1 << 25, 0, performInvoke, &performDescriptor, perform, release,
                          info};
    void *heap = _Block_copy(&block);
    CFRunLoopPerformBlock(cfLoop(rl), modes, (void (^)(void))heap);
    _Block_release(heap);
}

void RLPerformFunction(RLRunLoopRef rl, RLMode mode, void (*perform)(void *info), void *info,
                       void (*release)(void *info)) {
    queueBlock(rl, RLShimString(mode), perform, info, release);
}

void RLPerformFunctionInModes(RLRunLoopRef rl, const RLMode *modes, RLIndex count, void (*perform)(void *info),
                              void *info, void (*release)(void *info)) {
    CFMutableArrayRef array = CFArrayCreateMutable(kCFAllocatorDefault, 0, &kCFTypeArrayCallBacks);
    for (RLIndex i = 0; modes && i < count; i++)
        if (modes[i]) CFArrayAppendValue(array, RLShimString(modes[i]));
    queueBlock(rl, array, perform, info, release);
    CFRelease(array);
}

/* source.h */

RLTypeID RLSourceGetTypeID(void) { return CFRunLoopSourceGetTypeID(); }

RLSourceRef RLSourceCreate(RLIndex order, RLSourceContext *context) {
    if (!context || (context->version != 0 && context->version != 1)) return NULL;
    if (context->version == 1) {
        const RLSourceContext1 *c = (const RLSourceContext1 *)context;
        CFRunLoopSourceContext1 cf = {1, c->info, c->retain, c->release, toCFText(c->copyDescription),
                                      (Boolean (*)(const void *, const void *))c->equal, c->hash, c->getPort,
                                      c->perform};
        return (RLSourceRef)CFRunLoopSourceCreate(kCFAllocatorDefault, order, (CFRunLoopSourceContext *)&cf);
    }
    CFRunLoopSourceContext cf = {0, context->info, context->retain, context->release,
                                 toCFText(context->copyDescription),
                                 (Boolean (*)(const void *, const void *))context->equal, context->hash,
                                 toCFMode(context->schedule), toCFMode(context->cancel), context->perform};
    return (RLSourceRef)CFRunLoopSourceCreate(kCFAllocatorDefault, order, &cf);
}

RLIndex RLSourceGetOrder(RLSourceRef s) { return s ? CFRunLoopSourceGetOrder(cfSource(s)) : 0; }
void RLSourceInvalidate(RLSourceRef s) {
    if (s) CFRunLoopSourceInvalidate(cfSource(s));
}
bool RLSourceIsValid(RLSourceRef s) { return s && CFRunLoopSourceIsValid(cfSource(s)); }

void RLSourceGetContext(RLSourceRef s, RLSourceContext *context) {
    if (!s || !context) return;
    CFRunLoopSourceContext cf = {context->version == 1};
    CFRunLoopSourceGetContext(cfSource(s), &cf);
    if (cf.version == 1) {
        const CFRunLoopSourceContext1 *c = (const CFRunLoopSourceContext1 *)&cf;
        RLSourceContext1 rl = {1, c->info, c->retain, c->release, fromCFText(c->copyDescription),
                               (bool (*)(const void *, const void *))c->equal, c->hash, c->getPort, c->perform};
        memcpy(context, &rl, sizeof rl);
        return;
    }
    *context = (RLSourceContext){cf.version, cf.info, cf.retain, cf.release, fromCFText(cf.copyDescription),
                                 (bool (*)(const void *, const void *))cf.equal, cf.hash, fromCFMode(cf.schedule),
                                 fromCFMode(cf.cancel), cf.perform};
}

void RLSourceSignal(RLSourceRef s) {
    if (s) CFRunLoopSourceSignal(cfSource(s));
}
bool RLSourceIsSignalled(RLSourceRef s) { return s && CFRunLoopSourceIsSignalled(cfSource(s)); }
bool RLContainsSource(RLRunLoopRef rl, RLSourceRef s, RLMode mode) {
    return rl && s && mode && CFRunLoopContainsSource(cfLoop(rl), cfSource(s), RLShimString(mode));
}
void RLAddSource(RLRunLoopRef rl, RLSourceRef s, RLMode mode) {
    if (rl && s && mode) CFRunLoopAddSource(cfLoop(rl), cfSource(s), RLShimString(mode));
}
void RLRemoveSource(RLRunLoopRef rl, RLSourceRef s, RLMode mode) {
    if (rl && s && mode) CFRunLoopRemoveSource(cfLoop(rl), cfSource(s), RLShimString(mode));
}

/* observer.h */

RLTypeID RLObserverGetTypeID(void) { return CFRunLoopObserverGetTypeID(); }

RLObserverRef RLObserverCreate(RLOptionFlags activities, bool repeats, RLIndex order, RLObserverCallBack callout,
                               RLObserverContext *context) {
    CFRunLoopObserverContext cf = {0};
    if (context)
        cf = (CFRunLoopObserverContext){context->version, context->info, context->retain, context->release,
                                        toCFText(context->copyDescription)};
    return (RLObserverRef)CFRunLoopObserverCreate(kCFAllocatorDefault, activities, repeats, order,
                                                  (CFRunLoopObserverCallBack)(void *)callout, context ? &cf : NULL);
}

RLOptionFlags RLObserverGetActivities(RLObserverRef o) { return o ? CFRunLoopObserverGetActivities(cfObserver(o)) : 0; }
bool RLObserverDoesRepeat(RLObserverRef o) { return o && CFRunLoopObserverDoesRepeat(cfObserver(o)); }
RLIndex RLObserverGetOrder(RLObserverRef o) { return o ? CFRunLoopObserverGetOrder(cfObserver(o)) : 0; }
void RLObserverInvalidate(RLObserverRef o) {
    if (o) CFRunLoopObserverInvalidate(cfObserver(o));
}
bool RLObserverIsValid(RLObserverRef o) { return o && CFRunLoopObserverIsValid(cfObserver(o)); }

void RLObserverGetContext(RLObserverRef o, RLObserverContext *context) {
    if (!o || !context) return;
    CFRunLoopObserverContext cf = {0};
    CFRunLoopObserverGetContext(cfObserver(o), &cf);
    *context = (RLObserverContext){cf.version, cf.info, cf.retain, cf.release, fromCFText(cf.copyDescription)};
}

bool RLContainsObserver(RLRunLoopRef rl, RLObserverRef o, RLMode mode) {
    return rl && o && mode && CFRunLoopContainsObserver(cfLoop(rl), cfObserver(o), RLShimString(mode));
}
void RLAddObserver(RLRunLoopRef rl, RLObserverRef o, RLMode mode) {
    if (rl && o && mode) CFRunLoopAddObserver(cfLoop(rl), cfObserver(o), RLShimString(mode));
}
void RLRemoveObserver(RLRunLoopRef rl, RLObserverRef o, RLMode mode) {
    if (rl && o && mode) CFRunLoopRemoveObserver(cfLoop(rl), cfObserver(o), RLShimString(mode));
}

/* timer.h */

RLTypeID RLTimerGetTypeID(void) { return CFRunLoopTimerGetTypeID(); }

RLTimerRef RLTimerCreate(RLAbsoluteTime fireDate, RLTimeInterval interval, RLOptionFlags flags, RLIndex order,
                         RLTimerCallBack callout, RLTimerContext *context) {
    if (interval != interval) return NULL;
    CFRunLoopTimerContext cf = {0};
    if (context)
        cf = (CFRunLoopTimerContext){context->version, context->info, context->retain, context->release,
                                     toCFText(context->copyDescription)};
    return (RLTimerRef)CFRunLoopTimerCreate(kCFAllocatorDefault, fireDate, interval, flags, order,
                                            (CFRunLoopTimerCallBack)(void *)callout, context ? &cf : NULL);
}

RLAbsoluteTime RLTimerGetNextFireDate(RLTimerRef t) { return t ? CFRunLoopTimerGetNextFireDate(cfTimer(t)) : 0; }
void RLTimerSetNextFireDate(RLTimerRef t, RLAbsoluteTime fireDate) {
    if (t) CFRunLoopTimerSetNextFireDate(cfTimer(t), fireDate);
}
RLTimeInterval RLTimerGetInterval(RLTimerRef t) { return t ? CFRunLoopTimerGetInterval(cfTimer(t)) : 0; }
bool RLTimerDoesRepeat(RLTimerRef t) { return t && CFRunLoopTimerDoesRepeat(cfTimer(t)); }
RLIndex RLTimerGetOrder(RLTimerRef t) { return t ? CFRunLoopTimerGetOrder(cfTimer(t)) : 0; }
void RLTimerInvalidate(RLTimerRef t) {
    if (t) CFRunLoopTimerInvalidate(cfTimer(t));
}
bool RLTimerIsValid(RLTimerRef t) { return t && CFRunLoopTimerIsValid(cfTimer(t)); }

void RLTimerGetContext(RLTimerRef t, RLTimerContext *context) {
    if (!t || !context) return;
    CFRunLoopTimerContext cf = {0};
    CFRunLoopTimerGetContext(cfTimer(t), &cf);
    *context = (RLTimerContext){cf.version, cf.info, cf.retain, cf.release, fromCFText(cf.copyDescription)};
}

RLTimeInterval RLTimerGetTolerance(RLTimerRef t) { return t ? CFRunLoopTimerGetTolerance(cfTimer(t)) : 0; }
void RLTimerSetTolerance(RLTimerRef t, RLTimeInterval tolerance) {
    if (t) CFRunLoopTimerSetTolerance(cfTimer(t), tolerance);
}
bool RLContainsTimer(RLRunLoopRef rl, RLTimerRef t, RLMode mode) {
    return rl && t && mode && CFRunLoopContainsTimer(cfLoop(rl), cfTimer(t), RLShimString(mode));
}
void RLAddTimer(RLRunLoopRef rl, RLTimerRef t, RLMode mode) {
    if (rl && t && mode) CFRunLoopAddTimer(cfLoop(rl), cfTimer(t), RLShimString(mode));
}
void RLRemoveTimer(RLRunLoopRef rl, RLTimerRef t, RLMode mode) {
    if (rl && t && mode) CFRunLoopRemoveTimer(cfLoop(rl), cfTimer(t), RLShimString(mode));
}
