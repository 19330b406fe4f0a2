// SPDX-License-Identifier: MIT
// S-DBG-3: an exception that would leave a callback ends the process by std::terminate with the whole stack in place, after a line; one that is
// caught inside is the program's own, and the end of a thread is none: its frames are unwound.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include <runloop/runloop.h>

static const int terminated = 42;

static void onTerminate() {
    void *frames[64];
    int count = backtrace(frames, 64);
    char **texts = backtrace_symbols(frames, count);
    bool seesThrower = false, seesCallOut = false;
    for (int index = 0; index < count; index++) {
        seesThrower |= std::strstr(texts[index], "throwsInCallback") != nullptr;
        seesCallOut |= std::strstr(texts[index], "RLCallOut") != nullptr;
    }
    _exit(seesThrower && seesCallOut ? terminated : 1);
}

extern "C" __attribute__((noinline)) void throwsInCallback() { throw std::runtime_error("for nobody"); }

static void run() {
    try {
        RLRunInMode(kRLDefaultMode, 0, true);
    } catch (...) {
        _exit(2); // It must not get here.
    }
}

static void source() {
    RLSourceContext context{};
    context.perform = [](void *) { throwsInCallback(); };
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceSignal(source);
    run();
}

static void timer() {
    RLAddTimer(RLGetCurrent(), RLTimerCreate(0, 0, 0, 0, [](RLTimerRef, void *) { throwsInCallback(); }, nullptr), kRLDefaultMode);
    run();
}

static void observer() {
    RLTimerRef timer = RLTimerCreate(0, 0, 0, 0, [](RLTimerRef, void *) {}, nullptr);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0,
        [](RLObserverRef, RLActivity, void *) { throwsInCallback(); }, nullptr);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    run();
}

static void function() {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, [](void *) { throwsInCallback(); }, nullptr, nullptr);
    run();
}

// The exit code of a child that makes the call; its standard error goes to a pipe.
static int exitOf(void (*call)(), char *text, size_t size) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        std::set_terminate(onTerminate);
        call();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t count; length < size - 1 && (count = read(ends[0], text + length, size - 1 - length)) > 0;) length += count;
    text[length] = 0;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int failures = 0;

static void expect(bool holds, const char *what) {
    if (!holds) failures++;
    std::printf("%s %s\n", holds ? "ok    " : "FAILED", what);
}

struct Notes {
    bool *destroyed;
    ~Notes() { *destroyed = true; }
};

static void *endsInCallback(void *destroyed) {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, [](void *destroyed) {
        Notes notes{static_cast<bool *>(destroyed)};
        pthread_exit(nullptr);
    }, destroyed, nullptr);
    RLRunInMode(kRLDefaultMode, 0, true);
    return nullptr;
}

int main() {
    struct { const char *name; void (*call)(); } const calls[] = {
        {"a source", source}, {"a timer", timer}, {"an observer", observer}, {"a function", function} };
    for (auto &entry : calls) {
        char text[512];
        int code = exitOf(entry.call, text, sizeof text);
        expect(code == terminated, entry.name);
        expect(std::strstr(text, "RunLoop: an exception leaves a call-out") != nullptr, "a line tells of it");
    }

    bool caught = false;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, [](void *caught) {
        try { throwsInCallback(); } catch (const std::runtime_error &) { *static_cast<bool *>(caught) = true; }
    }, &caught, nullptr);
    run();
    expect(caught, "caught inside the callback");

    bool destroyed = false;
    pthread_t thread;
    pthread_create(&thread, nullptr, endsInCallback, &destroyed);
    pthread_join(thread, nullptr);
    expect(destroyed, "the end of a thread unwinds the callback's frames");
    return failures > 0;
}
