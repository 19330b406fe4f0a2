// SPDX-License-Identifier: MIT
/*
 * Qt drives a run loop: a QSocketNotifier makes the steps of a pass after Qt's wait, the dispatcher's aboutToBlock those before it.
 * So C libraries that use the run loop of their thread work in a Qt program, whose dialogs (event loops inside an event) serve it too.
 */
#include <runloop/runloop.h>

#include <QAbstractEventDispatcher>
#include <QEventLoop>
#include <QGuiApplication>
#include <QSocketNotifier>
#include <QTimer>
#include <QWindow>
#include <cstdio>
#include <memory>
#include <thread>

/* The run loop of this thread, in its Qt event loop, as long as the object lives. */
class RunLoopHost {
public:
    explicit RunLoopHost(RLMode mode) : run(RLForeignRunCreate(mode)) {
        if (!run) qFatal("the run loop has a host already");
        notifier.reset(new QSocketNotifier(RLForeignRunGetDescriptor(run), QSocketNotifier::Read));
        QObject::connect(notifier.get(), &QSocketNotifier::activated, [this] {
            auto tell = ended; /* a callback may delete this object */
            RLRunResult result = RLForeignRunDispatch(run);
            if (result != kRLRunGoesOn && tell) tell(result);
        });
        /* If there is something to do at once, or a timer is due later, the descriptor says so. */
        auto dispatcher = QAbstractEventDispatcher::instance();
        blocking = QObject::connect(dispatcher, &QAbstractEventDispatcher::aboutToBlock, [this] { RLForeignRunPrepare(run); });
    }
    ~RunLoopHost() {
        QObject::disconnect(blocking);
        notifier->setEnabled(false); /* before the descriptor is closed */
        notifier.release()->deleteLater(); /* its signal may be the caller */
        RLForeignRunInvalidate(run);
        RLRelease(run);
    }
    RunLoopHost(const RunLoopHost &) = delete;
    RunLoopHost &operator=(const RunLoopHost &) = delete;

    void (*ended)(RLRunResult result) = nullptr;

private:
    RLForeignRunRef run;
    std::unique_ptr<QSocketNotifier> notifier;
    QMetaObject::Connection blocking;
};

/* The run loop's side: a timer, and a source that another thread signals. */

static RLSourceRef source;
static int ticks;
static bool dialogHasEnded;

static void tick(RLTimerRef timer, void *) {
    std::printf("run loop: tick %d\n", ++ticks);
    if (ticks >= 6 && dialogHasEnded) RLTimerInvalidate(timer);
}

static void perform(void *) {
    std::printf("run loop: signalled by a thread\n");
    RLSourceInvalidate(source); /* nothing but the timer is left in the mode */
}

int main(int count, char **arguments) {
    QGuiApplication application(count, arguments);
    QWindow window;
    window.show();

    RLTimerContext timerContext = {0, nullptr, nullptr, nullptr, nullptr};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.02, 0.02, 0, 0, tick, &timerContext);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLSourceContext sourceContext = {};
    sourceContext.perform = perform;
    source = RLSourceCreate(0, &sourceContext);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);

    RunLoopHost host(kRLDefaultMode);
    host.ended = [](RLRunResult result) {
        std::printf("Qt: the run is over, %s\n", result == kRLRunStopped ? "stopped" : "finished");
        QCoreApplication::quit();
    };
    std::thread worker([loop = RLGetCurrent()] {
        RLSourceSignal(source);
        RLWakeUp(loop);
    });
    QTimer::singleShot(0, [] {
        /* What a dialog does. */
        QEventLoop dialog;
        QTimer look;
        QObject::connect(&look, &QTimer::timeout, [&dialog] {
            if (ticks >= 3) dialog.quit();
        });
        look.start(1);
        dialog.exec();
        dialogHasEnded = true;
        std::printf("Qt: a dialog ends, after three ticks or more\n");
    });
    int result = application.exec();
    worker.join();
    RLRelease(timer), RLRelease(source);
    return result;
}
