// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The kinds of items; the raw values are those of `RLItemKinds`.
enum ItemKind: UInt {
    case sources = 1
    case timers = 2
    case observers = 4
}

/// Items that were found in a mode, each with a reference, so that they can be looked at without the loop's lock.
struct ItemList {
    private(set) var items: UnsafeMutablePointer<ObjectPointer?>
    let room: Int
    private(set) var count = 0

    /// A nil follows the last item.
    init(room: Int) {
        self.room = room
        items = makeArray(ObjectPointer?.self, count: room + 1)
    }

    /// False if there was no room.
    mutating func append(_ object: ObjectPointer) -> Bool {
        if count == room { return false }
        object.pointee.references.wrappingAdd(1, ordering: .relaxed)
        items[count] = object
        count += 1
        return true
    }

    /// The same for an item that may be about to be freed; it is then left out. There is room. The lock of the loop is held.
    mutating func appendIfAlive(_ object: ObjectPointer, in loop: RunLoopPointer) {
        if object.pointee.type.load(ordering: .relaxed) == ObjectType.timer.rawValue {
            // Its count proves nothing: a loop keeps its timers without a reference, and the last one is not subtracted (`Timer.release`).
            let timer = TimerPointer(OpaquePointer(object))
            if timer.isGuarded(by: loop) && timer.isKept { _ = append(object) }
            return
        }
        guard object.tryRetain() else { return }
        items[count] = object
        count += 1
    }

    /// Drops the references. No lock is held.
    func free() {
        for index in 0..<count { items[index]!.releaseByClient() }
        CRunLoopLinux.free(items)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The items of a mode that are of the kinds (S-SEE-4).
    func copyItems(_ name: ModeName, _ kinds: UInt) -> ItemList {
        var mode: ModePointer?
        switch name {
        case .none: return ItemList(room: 0)
        case .named(let name):
            mode = self.mode(name)
            if mode == nil { return ItemList(room: 0) }
        case .common: break
        }
        var room = 16
        while true {
            var list = ItemList(room: room)
            lock()
            var needed = 0
            forEachKind(kinds) { needed += count($0, in: mode) }
            if needed <= room {
                forEachKind(kinds) { append($0, of: mode, to: &list) }
                unlock()
                return list
            }
            unlock()
            list.free()
            room = needed + needed / 8
        }
    }

    @inline(always)
    private func forEachKind(_ kinds: UInt, _ body: (ItemKind) -> Void) {
        if kinds & ItemKind.sources.rawValue != 0 { body(.sources) }
        if kinds & ItemKind.timers.rawValue != 0 { body(.timers) }
        if kinds & ItemKind.observers.rawValue != 0 { body(.observers) }
    }

    /// How many items of a kind a mode has; nil stands for the common items. The lock is held, as for the next.
    @inline(never)
    func count(_ kind: ItemKind, in mode: ModePointer?) -> Int {
        switch kind {
        case .sources: mode?.pointee.sources.count ?? pointee.commonSources.count
        case .timers: mode?.pointee.timerCount ?? pointee.commonTimers.count
        case .observers: mode?.pointee.observerCount ?? pointee.commonObservers.count
        }
    }

    /// Copies as many of them as there is room for.
    @inline(never)
    func append(_ kind: ItemKind, of mode: ModePointer?, to list: inout ItemList) {
        guard let mode else { return appendCommon(kind, to: &list) }
        switch kind {
        case .sources:
            var slot = 0
            while let source = mode.pointee.sources.next(from: &slot), appendUnlessOwn(source, to: &list) {}
        case .timers:
            mode.pointee.timers.forEachMember { list.append($0.timer.header) }
            // Timers whose callbacks are on the stack are in no store, except those that another thread put into their list.
            isCalling(TimerCall.self) { call in
                let timer = call.pointee.timer
                guard timer.isGuarded(by: self), let node = timer.node(in: mode), node.pointee.place == .nowhere,
                    !node.pointee.isAway, !node.pointee.isTombstone
                else { return false }
                return !list.append(timer.header)
            }
        case .observers:
            for index in 0..<Activity.count {
                guard let found = mode.pointee.observers[Activity.at(index)] else { continue }
                for place in 0..<found.pointee.count {
                    guard let observer = found.members[place], observer.firstActivity == index else { continue }
                    if !list.append(observer.header) { return }
                }
            }
        }
    }

    /// False if there was no room.
    @inline(never)
    private func appendUnlessOwn(_ source: SourcePointer, to list: inout ItemList) -> Bool {
        source.firstLink.pointee.traits.contains(.own) || list.append(source.header)
    }

    private func appendCommon(_ kind: ItemKind, to list: inout ItemList) {
        switch kind {
        case .sources:
            var slot = 0
            while let source = pointee.commonSources.next(from: &slot), appendUnlessOwn(source, to: &list) {}
        case .timers: pointee.commonTimers.forEach { _ = list.append($0.header) }
        case .observers: pointee.commonObservers.forEach { _ = list.append($0.header) }
        }
    }
}

extension UnsafeMutablePointer where Pointee == Observer {
    /// The first of a mode's lists that it is on.
    fileprivate var firstActivity: Int {
        var index = 0
        while !Activity.at(index).isIn(pointee.activities) { index += 1 }
        return index
    }
}
