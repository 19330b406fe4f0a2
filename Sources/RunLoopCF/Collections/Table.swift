// SPDX-License-Identifier: MIT
import CRunLoopCF

/// What a table does with its keys and values; a set has keys alone.
struct TableCallbacks {
    typealias Retain = @convention(c) (OpaquePointer?, UnsafeRawPointer?) -> UnsafeRawPointer?
    typealias Release = @convention(c) (OpaquePointer?, UnsafeRawPointer?) -> Void
    typealias Describe = @convention(c) (UnsafeRawPointer?) -> OpaquePointer?
    typealias Equal = @convention(c) (UnsafeRawPointer?, UnsafeRawPointer?) -> UInt8
    typealias Hash = @convention(c) (UnsafeRawPointer?) -> UInt

    var retain: Retain?
    var release: Release?
    var describe: Describe?
    var equal: Equal?
    var hash: Hash?
    var retainValue: Retain?
    var releaseValue: Release?
    var describeValue: Describe?
    var equalValue: Equal?
}

/// A place of a table.
struct TableSlot {
    var key: UnsafeRawPointer?
    var value: UnsafeRawPointer?
    var hash: UInt
    var isUsed: Bool
}

/// A set or a dictionary: an open hash table in which a key lies at the first free place from the one that its hash names.
struct TableRecord: Record {
    var header: RLCFHeader
    var count: Int
    /// A power of two, or 0.
    var capacity: Int
    var slots: UnsafeMutablePointer<TableSlot>?
    var callbacks: TableCallbacks

    static var kind: UInt32 { Kind.dictionary }
    static var mismatch: StaticString { "not a dictionary" }
    static func tearDown(_ record: TablePointer) {
        record.removeAll()
    }
}

typealias TablePointer = UnsafeMutablePointer<TableRecord>

func makeTable(_ kind: UInt32, _ allocator: AllocatorPointer, _ callbacks: TableCallbacks, isMutable: Bool) -> TablePointer? {
    let table = makeRecord(TableRecord.self, allocator, isMutable: isMutable)
    table?.pointee.header.type = kind
    table?.pointee.callbacks = callbacks
    return table
}

/// The set or dictionary behind a reference; NULL and other types trap.
func table(_ handle: OpaquePointer?, _ kind: UInt32, _ function: StaticString) -> TablePointer {
    guard let handle else { trap(function, "NULL is no object") }
    if rlcf_kind(UnsafeRawPointer(handle)) != kind { trap(function, kind == Kind.set ? "not a set" : "not a dictionary") }
    return TablePointer(handle)
}

func mutableTable(_ handle: OpaquePointer?, _ kind: UInt32, _ function: StaticString) -> TablePointer {
    let found = table(handle, kind, function)
    if !found.isMutable { trap(function, "the object is immutable") }
    return found
}

extension TablePointer {
    private func hash(_ key: UnsafeRawPointer?) -> UInt {
        pointee.callbacks.hash.map { $0(key) } ?? UInt(bitPattern: key) >> 3 ^ UInt(bitPattern: key) << 7
    }

    /// Where a hash begins to look; neighbours among hashes are no neighbours here. The factor differs with the capacity: what comes in the order of one
    /// table's places is in no order for another one, whose first part it would fill first.
    private func start(_ hash: UInt) -> Int {
        let shift = UInt(pointee.capacity.leadingZeroBitCount + 1)
        return Int(bitPattern: (hash &* 0x9e37_79b9_7f4a_7c15 &* (2 * shift + 1)) >> shift)
    }

    private func isEqual(_ one: UnsafeRawPointer?, _ two: UnsafeRawPointer?) -> Bool {
        if one == two { return true }
        guard let equal = pointee.callbacks.equal else { return false }
        return equal(one, two) != 0
    }

    func isEqualValue(_ one: UnsafeRawPointer?, _ two: UnsafeRawPointer?) -> Bool {
        if one == two { return true }
        guard let equal = pointee.callbacks.equalValue else { return false }
        return equal(one, two) != 0
    }

    /// The place of a key that is there; nil if it is not.
    func slot(_ key: UnsafeRawPointer?) -> UnsafeMutablePointer<TableSlot>? {
        pointee.count == 0 ? nil : slot(key, hash(key))
    }

    private func slot(_ key: UnsafeRawPointer?, _ hash: UInt) -> UnsafeMutablePointer<TableSlot>? {
        if pointee.count == 0 { return nil }
        var index = start(hash)
        while pointee.slots![index].isUsed {
            let slot = pointee.slots! + index
            if slot.pointee.hash == hash && isEqual(slot.pointee.key, key) { return slot }
            index = (index + 1) & (pointee.capacity - 1)
        }
        return nil
    }

    private func place(_ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?, _ hash: UInt) {
        var index = start(hash)
        while pointee.slots![index].isUsed { index = (index + 1) & (pointee.capacity - 1) }
        pointee.slots![index] = TableSlot(key: key, value: value, hash: hash, isUsed: true)
    }

    private func resize(_ capacity: Int) {
        let (old, oldCapacity) = (pointee.slots, pointee.capacity)
        pointee.capacity = capacity
        let size = pointee.capacity * MemoryLayout<TableSlot>.stride
        let memory = needMemory(allocator, size)
        memset(memory, 0, size)
        pointee.slots = memory.assumingMemoryBound(to: TableSlot.self)
        for index in 0..<oldCapacity where old![index].isUsed { place(old![index].key, old![index].value, old![index].hash) }
        giveBack(allocator, old)
    }

    private func retained(_ key: UnsafeRawPointer?) -> UnsafeRawPointer? {
        if let retain = pointee.callbacks.retain { return retain(OpaquePointer(allocator), key) }
        return key
    }

    private func retainedValue(_ value: UnsafeRawPointer?) -> UnsafeRawPointer? {
        if let retain = pointee.callbacks.retainValue { return retain(OpaquePointer(allocator), value) }
        return value
    }

    /// Adds a key that was not there. Here and below values come before their keys, as in CoreFoundation.
    func insert(_ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?) {
        let value = retainedValue(value)
        add(retained(key), value)
    }

    private func add(_ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?) {
        let hash = hash(key)
        // A function of the client may have added it meanwhile.
        if let slot = slot(key, hash) { return exchange(slot, key: key, value: value) }
        // Three quarters are in use at most, so that every search ends.
        if (pointee.count + 1) * 4 > pointee.capacity * 3 { resize(Swift.max(8, pointee.capacity * 2)) }
        place(key, value, hash)
        pointee.count += 1
    }

    /// Replaces a key by one that is equal, and its value.
    func replace(_ slot: UnsafeMutablePointer<TableSlot>, key: UnsafeRawPointer?, value: UnsafeRawPointer?) {
        let (slots, former) = (pointee.slots, slot.pointee.key)
        let (value, key) = (retainedValue(value), retained(key))
        // These functions of the client may have changed the table.
        let isThere = pointee.slots == slots && slot.pointee.isUsed && slot.pointee.key == former
        if isThere { exchange(slot, key: key, value: value) } else { add(key, value) }
    }

    private func exchange(_ slot: UnsafeMutablePointer<TableSlot>, key: UnsafeRawPointer?, value: UnsafeRawPointer?) {
        let (oldKey, oldValue) = (slot.pointee.key, slot.pointee.value)
        slot.pointee.key = key
        slot.pointee.value = value
        if let release = pointee.callbacks.releaseValue { release(OpaquePointer(allocator), oldValue) }
        if let release = pointee.callbacks.release { release(OpaquePointer(allocator), oldKey) }
    }

    /// A table that has become nearly empty gives memory back, for whoever goes through it looks at all of its places.
    func remove(_ slot: UnsafeMutablePointer<TableSlot>) {
        take(slot) { if pointee.capacity > 64 && pointee.count * 16 < pointee.capacity { resize(pointee.capacity / 4) } }
    }

    private func take(_ slot: UnsafeMutablePointer<TableSlot>, _ fit: () -> Void) {
        let (key, value) = (slot.pointee.key, slot.pointee.value)
        // What follows without a gap may have been put there because this place was taken.
        var hole = slot - pointee.slots!
        var index = hole
        while true {
            index = (index + 1) & (pointee.capacity - 1)
            if !pointee.slots![index].isUsed { break }
            let wanted = start(pointee.slots![index].hash)
            let mask = pointee.capacity - 1
            if (index - wanted) & mask >= (index - hole) & mask {
                pointee.slots![hole] = pointee.slots![index]
                hole = index
            }
        }
        pointee.slots![hole] = TableSlot(key: nil, value: nil, hash: 0, isUsed: false)
        pointee.count -= 1
        fit()
        if let release = pointee.callbacks.releaseValue { release(OpaquePointer(allocator), value) }
        if let release = pointee.callbacks.release { release(OpaquePointer(allocator), key) }
    }

    func removeAll() {
        while pointee.count > 0 {
            var index = 0
            while pointee.count > 0 && index < pointee.capacity {
                if pointee.slots![index].isUsed { take(pointee.slots! + index) {} } else { index += 1 }
            }
        }
        giveBack(allocator, pointee.slots)
        (pointee.slots, pointee.capacity) = (nil, 0)
    }

    /// Calls a closure for each key, by the place in the table.
    func forEach(_ body: (UnsafeRawPointer?, UnsafeRawPointer?) -> Void) {
        var index = 0
        while index < pointee.capacity {
            if pointee.slots![index].isUsed { body(pointee.slots![index].key, pointee.slots![index].value) }
            index += 1
        }
    }

    /// A table of the same content.
    func copy(_ allocator: AllocatorPointer, isMutable: Bool) -> TablePointer? {
        guard let copy = makeTable(header.pointee.type, allocator, pointee.callbacks, isMutable: isMutable) else { return nil }
        var index = 0
        while index < pointee.capacity {
            let slot = pointee.slots![index]
            if slot.isUsed {
                let value = copy.retainedValue(slot.value)
                // That may have removed the entry, and with it the last reference to the key.
                let isThere = index < pointee.capacity && pointee.slots![index].isUsed && pointee.slots![index].key == slot.key
                if isThere {
                    copy.add(copy.retained(slot.key), value)
                } else if let release = pointee.callbacks.releaseValue {
                    release(OpaquePointer(allocator), value)
                }
            }
            index += 1
        }
        return copy
    }
}

func areEqual(_ one: TablePointer, _ two: TablePointer) -> Bool {
    if one.pointee.count != two.pointee.count { return false }
    for index in 0..<one.pointee.capacity where one.pointee.slots![index].isUsed {
        let slot = one.pointee.slots![index]
        guard let other = two.slot(slot.key), one.isEqualValue(slot.value, other.pointee.value) else { return false }
    }
    return true
}
