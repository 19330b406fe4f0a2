// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// An object that can be asked to do something on another thread or later, by a ``Selector``.
///
/// A class that conforms gets the functions that Foundation gives every object. Each request retains its object
/// and its argument until it has been performed or is dropped (S-PERF-9).
///
/// Foundation: `NSObject`'s `perform` functions.
public protocol Performer: AnyObject, Sendable {}

extension Performer {
    /// Asks a loop to perform the selector, and wakes it; with `wait`, returns after that.
    ///
    /// All requests that a mode permits are performed in one pass, in the order in which they were made; they count as a
    /// handled source
    /// (S-PERF-2, S-PERF-3). On the calling thread's own loop a request that the caller waits for is performed
    /// inside the call (S-PERF-4). It cannot be cancelled (S-PERF-10).
    ///
    /// - Parameters:
    ///   - aSelector: the action.
    ///   - loop: that of the thread that performs it.
    ///   - arg: the argument of the selector's action.
    ///   - wait: whether to block until it is done; the caller's own loop does not run meanwhile (S-PERF-6).
    ///   - modes: the modes in which it may be performed, the common ones if left out (S-PERF-8). With none it never
    ///     is (S-PERF-7).
    /// - Returns: true if the request is queued, or has been performed; false if it never will be, because the loop's
    ///   thread has ended or ends before it (S-PERF-11).
    /// - Threads: any. An asynchronous function does not wait this way; it awaits ``RunLoop/call(isolation:_:)``.
    /// - Foundation: `perform(_:on:with:waitUntilDone:modes:)`, which takes a thread.
    @available(*, noasync, message: "it may block its thread; await RunLoop.call(_:)")
    @discardableResult
    public func perform(
        _ aSelector: Selector<Self>, on loop: RunLoop, with arg: (any Sendable)?, waitUntilDone wait: Bool,
        modes: [RunLoop.Mode] = [.common]
    ) -> Bool {
        let request = PerformRequest(aSelector, self, arg).retained()
        return withNames(of: modes) { names in
            RLPerformOnLoopInModes(
                loop.reference, names.baseAddress, names.count, performRequest, request, releaseRequest, wait)
        }
    }

    /// Asks the main thread's loop (S-PERF-15); otherwise like ``perform(_:on:with:waitUntilDone:modes:)``.
    ///
    /// - Parameters:
    ///   - aSelector: the action.
    ///   - arg: the argument of the selector's action.
    ///   - wait: whether to block until it is done.
    ///   - modes: the modes in which it may be performed, the common ones if left out.
    /// - Returns: true if the request is queued, or has been performed.
    /// - Foundation: `performSelector(onMainThread:with:waitUntilDone:modes:)`.
    @available(*, noasync, message: "it may block its thread; await RunLoop.main.call(_:)")
    @discardableResult
    public func performSelector(
        onMainThread aSelector: Selector<Self>, with arg: (any Sendable)?, waitUntilDone wait: Bool,
        modes: [RunLoop.Mode] = [.common]
    ) -> Bool {
        perform(aSelector, on: .main, with: arg, waitUntilDone: wait, modes: modes)
    }

    /// Performs the selector on a new thread, which runs no loop and ends after it (S-PERF-15).
    ///
    /// - Parameters:
    ///   - aSelector: the action.
    ///   - arg: the argument of the selector's action.
    /// - Returns: false if no thread is available.
    /// - Foundation: `performSelector(inBackground:with:)`.
    @discardableResult
    public func performSelector(inBackground aSelector: Selector<Self>, with arg: (any Sendable)?) -> Bool {
        RLPerformInBackground(performRequest, PerformRequest(aSelector, self, arg).retained(), releaseRequest)
    }

    /// Sets a timer on the calling thread's loop that performs the selector once (S-PERF-16).
    ///
    /// It is never performed inside this call, even without a delay (S-PERF-17). Requests with the same delay are
    /// performed in the order in which they were made (S-PERF-18). Because it is a timer, it does not count as a handled
    /// source (S-PERF-19).
    ///
    /// - Parameters:
    ///   - aSelector: the action.
    ///   - anArgument: the argument of the selector's action.
    ///   - delay: how long to wait at least; a negative one counts as none.
    ///   - modes: the modes in which it may be performed, the default one if left out. With none it never is.
    /// - Threads: any; the calling thread's loop must be run.
    /// - Foundation: `perform(_:with:afterDelay:inModes:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public func perform(
        _ aSelector: Selector<Self>, with anArgument: (any Sendable)?, afterDelay delay: Duration,
        inModes modes: [RunLoop.Mode] = [.default]
    ) {
        let request = ListedRequest(aSelector, self, anArgument, loop: RLGetCurrent(), in: ListedRequest.delayed)
        withNames(of: modes) { names in
            RLPerformAfterDelayInModes(
                names.baseAddress, names.count, delay.inSeconds, address(of: self), performRequest, request.listed(),
                releaseListed)
        }
    }

    /// Cancels delayed requests of one selector with an equal argument, in all modes of the calling thread's loop
    /// (S-PERF-20).
    ///
    /// It has no effect if nothing matches, and on a request that is being performed (S-PERF-22). Other threads' loops are
    /// not touched (S-PERF-23).
    ///
    /// - Parameters:
    ///   - aTarget: the object that the requests are for.
    ///   - aSelector: their action.
    ///   - anArgument: their argument: the same object, or an equal value.
    /// - Foundation: `cancelPreviousPerformRequests(withTarget:selector:object:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public static func cancelPreviousPerformRequests(
        withTarget aTarget: Self, selector aSelector: Selector<Self>, object anArgument: (any Sendable)?
    ) {
        let like = ListedRequest(aSelector, aTarget, anArgument, loop: RLGetCurrent(), in: ListedRequest.delayed)
        like.forEachLike { RLCancelPerformAfterDelay(address(of: aTarget), performRequest, $0, nil) }
    }

    /// Cancels all delayed requests to an object, in all modes of the calling thread's loop (S-PERF-21).
    ///
    /// - Parameter aTarget: the object that the requests are for.
    /// - Foundation: `cancelPreviousPerformRequests(withTarget:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public static func cancelPreviousPerformRequests(withTarget aTarget: Self) {
        RLCancelPerformAfterDelay(address(of: aTarget), nil, nil, nil)
    }
}

/// What the C library knows an object by.
private func address(of object: AnyObject) -> UnsafeRawPointer {
    UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
}

// MARK: - What can be cancelled

/// A request for later or for the start of a pass, which can be cancelled as long as its table knows it.
final class ListedRequest: PerformRequest {
    /// Requests that one cancellation may mean; ``isLike(_:)`` decides.
    struct Place: Hashable {
        let loop: UInt
        let target: ObjectIdentifier
        let name: String
        let argument: SenderKey
    }

    typealias Table = Locked<[Place: [ObjectIdentifier: ListedRequest]]>

    let place: Place
    private let table: Table

    init<Target: AnyObject & Sendable>(
        _ selector: Selector<Target>, _ target: Target, _ argument: (any Sendable)?, loop: RLRunLoopRef, in table: Table
    ) {
        self.table = table
        place = Place(
            loop: UInt(bitPattern: loop), target: ObjectIdentifier(target), name: selector.name, argument: SenderKey(argument))
        super.init(selector, target, argument)
    }

    /// All that the C library has, by the kinds that it cancels differently.
    static let delayed = Table([:])
    static let ordered = Table([:])

    /// The request as the C library takes it, which gives it to ``releaseListed(_:)``.
    func listed() -> UnsafeMutableRawPointer {
        table.withLock { $0[place, default: [:]][ObjectIdentifier(self)] = self }
        return retained()
    }

    fileprivate func unlist() {
        // What it keeps goes after the lock.
        let known = table.withLock { table in
            let known = table[place]?.removeValue(forKey: ObjectIdentifier(self))
            if table[place]?.isEmpty == true { table[place] = nil }
            return known
        }
        withExtendedLifetime(known) {}
    }

    /// Calls the body with the requests that this one is like, as the C library knows them. So it compares none, and others of the
    /// target cost nothing.
    func forEachLike(_ body: (UnsafeMutableRawPointer) -> Void) {
        if place.argument == .unlike { return }
        // Compared without the lock: the equality of the arguments is the client's code. The array keeps the requests, so none
        // that was performed meanwhile has given its address to another.
        let listed = table.withLock { Array(($0[place] ?? [:]).values) }
        for request in listed where request.isLike(self) { body(Unmanaged.passUnretained(request).toOpaque()) }
    }
}

private func releaseListed(_ info: UnsafeMutableRawPointer?) {
    unsafeDowncast(PerformRequest.of(info!), to: ListedRequest.self).unlist()
    releaseRequest(info)
}

// MARK: - In order

extension RunLoop {
    /// Asks the loop to perform a selector at the start of its next pass in one of the modes (S-PERF-24).
    ///
    /// Of those that are due together the ones of lower order come first, equal ones in the order in which they were made. They do not
    /// count as a handled source, and the loop is woken.
    ///
    /// - Parameters:
    ///   - aSelector: the action.
    ///   - target: the object that performs it; kept, like the argument, until it was performed or is cancelled (S-PERF-25).
    ///   - arg: the argument of the selector's action.
    ///   - order: its place among the requests.
    ///   - modes: the modes in which it may be performed; with none it never is.
    /// - Threads: any.
    /// - Foundation: `perform(_:target:argument:order:modes:)`.
    public func perform<Target: AnyObject & Sendable>(
        _ aSelector: Selector<Target>, target: Target, argument arg: (any Sendable)?, order: Int, modes: [Mode]
    ) {
        let request = ListedRequest(aSelector, target, arg, loop: reference, in: ListedRequest.ordered)
        withNames(of: modes) { names in
            RLPerformInOrder(
                reference, names.baseAddress, names.count, order, address(of: target), performRequest,
                request.listed(), releaseListed)
        }
    }

    /// Cancels ordered requests of one selector with an equal argument, in all modes (S-PERF-26).
    ///
    /// - Parameters:
    ///   - aSelector: their action.
    ///   - target: the object that the requests are for.
    ///   - arg: their argument: the same object, or an equal value.
    /// - Threads: any.
    /// - Foundation: `cancelPerform(_:target:argument:)`.
    public func cancelPerform<Target: AnyObject & Sendable>(
        _ aSelector: Selector<Target>, target: Target, argument arg: (any Sendable)?
    ) {
        let like = ListedRequest(aSelector, target, arg, loop: reference, in: ListedRequest.ordered)
        like.forEachLike { RLCancelPerformInOrder(reference, address(of: target), performRequest, $0) }
    }

    /// Cancels all ordered requests to an object, in all modes (S-PERF-26).
    ///
    /// - Parameter target: the object that the requests are for.
    /// - Threads: any.
    /// - Foundation: `cancelPerformSelectors(withTarget:)`.
    public func cancelPerformSelectors(withTarget target: AnyObject) {
        RLCancelPerformInOrder(reference, address(of: target), nil, nil)
    }
}
