// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A request whose outcome a function gets on a loop's thread (`RLMessagePortBeginRequest`).
///
/// `arrival` is in the loop's mode and performs when the request is over; the record is that source's info and is freed with it. What
/// takes the request out of the port's table ends it: the arrival when it performs, the end of the loop's thread, which the arrival's
/// `cancel` reports, or a cancellation. The connection is read by the watch of a `ReplyService`, by threads that wait for replies of
/// their own, and by those that wait for room.
struct BegunRequest {
    var id: UInt32
    /// Guarded by the port's lock, as are the next three.
    var state: ReplyWaiter.State
    var data: DataPointer?
    /// The next one in its bucket.
    var next: BegunRequestPointer?
    /// One use of it. Nil when the request is not in the table.
    var service: ReplyServicePointer?
    let callout: ReplyFunction
    let info: UnsafeMutableRawPointer?
    /// One reference to each; what ends the request gives them back.
    let arrival: SourcePointer
    let loop: RunLoopPointer
    /// Its memory is held as long as the record exists: a thread that is too late to end the request still asks the port.
    let port: MessagePortPointer
    /// What it held is given back.
    var isFinished = false
}

typealias BegunRequestPointer = UnsafeMutablePointer<BegunRequest>

/// What reads a port's replies in one mode of one loop, for all begun requests there. Guarded by the port's lock, except for `watch`.
struct ReplyService {
    /// A reference.
    let loop: RunLoopPointer
    /// Nil: the common modes.
    let mode: ModePointer?
    /// A reference. Its own watch and not that of requests that run a mode themselves, which remove theirs again.
    let watch: SourcePointer
    var users: Int
    var next: ReplyServicePointer?
}

typealias ReplyServicePointer = UnsafeMutablePointer<ReplyService>

/// Begun requests by id, in buckets. The zero value is empty.
struct BegunRequests {
    private var buckets: UnsafeMutablePointer<BegunRequestPointer?>?
    private var capacity: UInt32 = 0
    private var count: UInt32 = 0

    var isEmpty: Bool { count == 0 }

    func find(_ id: UInt32) -> BegunRequestPointer? {
        guard let buckets else { return nil }
        var request = buckets[Int(id & (capacity - 1))]
        while let current = request, current.pointee.id != id { request = current.pointee.next }
        return request
    }

    mutating func insert(_ request: BegunRequestPointer) {
        if count == capacity {
            var old = self
            capacity = max(8, 2 * capacity)
            buckets = makeArray(BegunRequestPointer?.self, count: Int(capacity))
            old.forEach { link($0) }
            old.free()
        }
        link(request)
        count += 1
    }

    private mutating func link(_ request: BegunRequestPointer) {
        let place = Int(request.pointee.id & (capacity - 1))
        request.pointee.next = buckets![place]
        buckets![place] = request
    }

    mutating func remove(_ request: BegunRequestPointer) {
        let place = Int(request.pointee.id & (capacity - 1))
        count -= 1
        // The memory that many requests at once needed is not kept. A few buckets are, for the next request.
        defer { if count == 0 && capacity > 64 { free() } }
        if buckets![place] == request {
            buckets![place] = request.pointee.next
            return
        }
        var other = buckets![place]
        while let current = other, current.pointee.next != request { other = current.pointee.next }
        other!.pointee.next = request.pointee.next
    }

    func forEach(_ body: (BegunRequestPointer) -> Void) {
        for place in 0..<Int(capacity) {
            var request = buckets![place]
            while let current = request {
                request = current.pointee.next
                body(current)
            }
        }
    }

    mutating func free() {
        CRunLoopLinux.free(buckets)
        buckets = nil
        capacity = 0
        count = 0
    }
}

// MARK: - Beginning

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// `RLMessagePortBeginRequest`.
    func begin(
        _ request: MessageRequest, on loop: RunLoopPointer, in name: ModeName, _ callout: @escaping ReplyFunction,
        _ info: UnsafeMutableRawPointer?, _ number: UnsafeMutablePointer<UInt32>?
    ) -> Int32 {
        if let refusal = refusal(of: request) { return refusal }
        guard let (begun, watch) = makeBegun(on: loop, in: name, callout, info) else { return MessagePortCode.isInvalid }
        let (id, arrival) = (begun.pointee.id, begun.pointee.arrival)
        // Before the loop has the sources and may call the function.
        number?.pointee = id
        defer {
            arrival.release()
            watch.release()
        }
        let code = transmit(request, id: id)
        if code != MessagePortCode.success {
            if take(begun) { begun.finish() }
            return code
        }
        // A reply that has already come is found there.
        loop.addSource(watch, to: name)
        loop.addSource(arrival, to: name)
        // Sources are taken out of a loop whose thread ends after this, which calls the arrival's `cancel`.
        if loop.pointee.posts.isClosed, take(begun) {
            begun.finish()
            return MessagePortCode.receiveTimeout
        }
        return code
    }

    /// With one more reference to the arrival, which holds the record, and to the watch: another thread may cancel any number at any
    /// time.
    private func makeBegun(
        on loop: RunLoopPointer, in name: ModeName, _ callout: @escaping ReplyFunction, _ info: UnsafeMutableRawPointer?
    ) -> (begun: BegunRequestPointer, watch: SourcePointer)? {
        var mode: ModePointer?
        if case .named(let name) = name { mode = loop.makeModeRecord(name) }
        let begun = makeArray(BegunRequest.self, count: 1)
        let functions = SourceFunctions(
            release: {
                let begun = BegunRequestPointer(asInfo: $0)
                begun.pointee.port.releaseMemory()
                CRunLoopLinux.free(begun)
            },
            cancel: { info, _, _ in BegunRequestPointer(asInfo: info).giveOutcome() },
            perform: { BegunRequestPointer(asInfo: $0).giveOutcome() },
            abandoned: { BegunRequestPointer(asInfo: $0).finish() })
        let arrival = SourcePointer.make(order: 0, info: begun, functions: functions, isVersionOne: false)
        arrival.becomeOwn()
        begun.initialize(to: BegunRequest(
            id: 0, state: .waiting, data: nil, next: nil, service: nil, callout: callout, info: info, arrival: arrival, loop: loop,
            port: self))
        retain()
        holdMemory()
        loop.retain()
        let spare = makeService(on: loop, mode)
        lock()
        var taken: (begun: BegunRequestPointer, watch: SourcePointer)?
        var isSpare = true
        if isValid && pointee.remote.connection >= 0 {
            var service = pointee.remote.services
            while let current = service, current.pointee.loop != loop || current.pointee.mode != mode { service = current.pointee.next }
            if service == nil {
                isSpare = false
                spare.pointee.next = pointee.remote.services
                pointee.remote.services = spare
            }
            let used = service ?? spare
            used.pointee.users += 1
            begun.pointee.service = used
            begun.pointee.id = nextIDLocked()
            pointee.remote.begun.insert(begun)
            arrival.retain()
            used.pointee.watch.retain()
            taken = (begun, used.pointee.watch)
        }
        unlock()
        if isSpare { spare.end() }
        if taken == nil { begun.finish() }
        return taken
    }

    private func makeService(on loop: RunLoopPointer, _ mode: ModePointer?) -> ReplyServicePointer {
        lock()
        let connection = pointee.remote.connection
        unlock()
        let service = makeArray(ReplyService.self, count: 1)
        // The order makes it equal to no other valid watch of the port (S-SRC-5): two may meet in one mode, where one is for the common modes, or
        // the requests of one have just ended, and the mode would have the first alone (S-SRC-7).
        let order = Int(bitPattern: service)
        let watch = makeWatch(descriptor: connection, order: order) { info, _ in MessagePortPointer(info: info).performReplies() }
        watch.becomeOwn()
        loop.retain()
        service.initialize(to: ReplyService(loop: loop, mode: mode, watch: watch, users: 0, next: nil))
        return service
    }

    // MARK: - Ending

    /// Takes a request out of the table. False if another thread has done so, and ends it.
    fileprivate func take(_ begun: BegunRequestPointer) -> Bool {
        lock()
        guard let service = begun.pointee.service else {
            unlock()
            return false
        }
        let unused = takeLocked(begun, service)
        unlock()
        unused?.end()
        if hasLateReplies { MessagePortMonitor.watchLateReplies(self) }
        return true
    }

    /// The service, if it is not used any more.
    private func takeLocked(_ begun: BegunRequestPointer, _ service: ReplyServicePointer) -> ReplyServicePointer? {
        pointee.remote.begun.remove(begun)
        if begun.pointee.state == .waiting { addLateLocked(1) }
        begun.pointee.service = nil
        service.pointee.users -= 1
        guard service.pointee.users == 0 else { return nil }
        if pointee.remote.services == service {
            pointee.remote.services = service.pointee.next
        } else {
            var other = pointee.remote.services
            while let current = other, current.pointee.next != service { other = current.pointee.next }
            other!.pointee.next = service.pointee.next
        }
        return service
    }

    /// `RLMessagePortCancelRequest`.
    func cancelRequest(_ id: UInt32) -> Bool {
        lock()
        guard let begun = pointee.remote.begun.find(id), let service = begun.pointee.service else {
            unlock()
            return false
        }
        let unused = takeLocked(begun, service)
        unlock()
        unused?.end()
        if hasLateReplies { MessagePortMonitor.watchLateReplies(self) }
        begun.finish()
        return true
    }

    /// Notes how a request ended and has its loop call the function.
    @inline(never)
    func completeLocked(_ begun: BegunRequestPointer, _ state: ReplyWaiter.State) {
        begun.pointee.state = state
        begun.pointee.arrival.signal(on: begun.pointee.loop)
    }

    /// The port is invalid: its connection must be in no loop when its number is given back.
    func endServices() {
        while true {
            lock()
            var service = pointee.remote.services
            while let current = service, !current.pointee.watch.isValid { service = current.pointee.next }
            let watch = service?.pointee.watch
            watch?.retain()
            unlock()
            guard let watch else { return }
            watch.invalidate()
            watch.release()
        }
    }

    /// Whether a loop may still have the connection for a begun request. Caller holds the lock.
    var hasServiceLocked: Bool {
        var service = pointee.remote.services
        while let current = service {
            if current.pointee.watch.isValid { return true }
            service = current.pointee.next
        }
        return false
    }

    /// In the child of `fork`: the requests of the one remaining loop end because the port is invalid; the others can be cancelled.
    func loseBegunRequests() {
        pointee.remote.begun.forEach { begun in
            if begun.pointee.state == .waiting { begun.pointee.state = .invalid }
            if begun.pointee.loop.isCurrent { completeLocked(begun, begun.pointee.state) }
        }
    }
}

extension UnsafeMutablePointer where Pointee == Source {
    /// Has the source perform, also on a loop that sleeps.
    @inline(never)
    func signal(on loop: RunLoopPointer) {
        signal()
        loop.wakeUp()
    }
}

extension UnsafeMutablePointer where Pointee == ReplyService {
    /// Nothing refers to it any more.
    fileprivate func end() {
        pointee.watch.invalidate()
        pointee.watch.release()
        pointee.loop.release()
        CRunLoopLinux.free(self)
    }
}

extension UnsafeMutablePointer where Pointee == BegunRequest {
    fileprivate init(asInfo info: UnsafeRawPointer?) {
        self = UnsafeMutableRawPointer(mutating: info!).assumingMemoryBound(to: BegunRequest.self)
    }

    /// Calls the function, unless the request has already ended. The source is retained meanwhile, and so the record.
    fileprivate func giveOutcome() {
        guard pointee.port.take(self) else { return }
        // What is still waiting never gets a reply: the loop's thread ends.
        let code: Int32 =
            switch pointee.state {
            case .replied: MessagePortCode.success
            case .failed: MessagePortCode.transportError
            case .invalid: MessagePortCode.becameInvalid
            case .waiting: MessagePortCode.receiveTimeout
            }
        callOutReply(pointee.callout, pointee.port.handle, code, pointee.data?.handle, pointee.info)
        finish()
    }

    /// Gives back what the request holds. It is in no table any more.
    fileprivate func finish() {
        if pointee.isFinished { return }
        pointee.isFinished = true
        let request = pointee
        request.arrival.invalidate()
        request.data?.release()
        request.port.release()
        request.loop.release()
        request.arrival.release()
    }
}
