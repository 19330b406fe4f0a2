// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A datagram that is being sent. Long data are in sealed memory, which the receiver maps, or come in parts
/// (`MessageParts.swift`).
struct OutgoingMessage {
    var header: WireHeader
    var bytes: UnsafeRawPointer?
    /// Of a reply, or of a part of one, the id of the request.
    var request: UInt32 = 0
    /// The memory file with the data, or -1.
    private var memory: Int32 = -1
    /// A message may wait for room, and the program close the number meanwhile.
    private var file = FileIdentity()
    private var descriptors: UnsafePointer<Int32>?

    /// A part that is in a place of kept memory.
    init(part length: Int, place: Int, of kept: KeptMemoryPointer) {
        header = WireHeader(
            kind: .part, flags: WireHeader.inKeptMemory, id: 0, number: Int32(place), length: UInt64(length), descriptors: 0)
        memory = kept.pointee.file
        file = kept.pointee.identity
    }

    init(_ header: WireHeader, bytes: UnsafeRawPointer?, descriptors: UnsafePointer<Int32>? = nil) {
        self.header = header
        self.bytes = bytes
        request = header.id
        self.descriptors = descriptors
    }

    /// Moves long data to memory. False if there is no memory or descriptor for it.
    mutating func prepare() -> Bool {
        Int(header.length) <= WireHeader.inlineLimit || moveToMemory()
    }

    @inline(never)
    mutating func moveToMemory() -> Bool {
        memory = rl_sealed_memory(bytes!, Int(header.length))
        guard memory >= 0 else { return false }
        file = FileIdentity(memory)
        header.flags |= WireHeader.inMemory
        bytes = nil
        return true
    }

    /// Whether it has a memory file of its own.
    var isSealed: Bool { memory >= 0 && header.flags & WireHeader.inKeptMemory == 0 }

    /// The bytes of memory that the message keeps until it is taken.
    var sealedLength: Int { isSealed ? Int(truncatingIfNeeded: header.length) : 0 }

    /// Sends it if there is room: 0, or an errno; EAGAIN without room.
    @inline(never)
    mutating func send(to socket: Int32) -> Int32 {
        let error = sendOnce(to: socket)
        // A socket with an uncommonly small buffer.
        guard error == EMSGSIZE && bytes != nil && header.length > 0 else { return error }
        return moveToMemory() ? sendOnce(to: socket) : EMSGSIZE
    }

    private func sendOnce(to socket: Int32) -> Int32 {
        guard memory < 0 || file.has(memory) else { return EBADF }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: WireHeader.size) { head in
            header.encode(head.baseAddress!)
            let count = Int(header.descriptors)
            guard memory >= 0 else {
                let length = bytes == nil ? 0 : Int(header.length)
                return rl_message_send(socket, head.baseAddress!, WireHeader.size, bytes, length, descriptors, Int32(count))
            }
            return withUnsafeTemporaryAllocation(of: Int32.self, capacity: count + 1) { all in
                all[0] = memory
                for index in 0..<count { all[index + 1] = descriptors![index] }
                return rl_message_send(socket, head.baseAddress!, WireHeader.size, nil, 0, all.baseAddress!, Int32(count + 1))
            }
        }
    }

    @inline(never)
    mutating func finish() {
        if isSealed { file.close(memory) }
        memory = -1
    }
}

/// The content of one datagram.
enum Incoming {
    /// There is none.
    case nothing
    /// The kernel has no memory to give it now.
    case later
    /// The other end is gone.
    case ended
    case refused(WireError)
    /// A message was begun, or went on by so many bytes.
    case part(Int)
    case message(IncomingMessage)
}

struct IncomingMessage {
    var header: WireHeader
    /// The data, one reference; nil if they could not be received: no descriptor or no memory here.
    var data: DataPointer?
    /// The client's descriptors, in memory from malloc, nil if there are none.
    var descriptors: UnsafeMutablePointer<Int32>?
    var descriptorCount = 0

    /// Drops the data and closes the descriptors.
    @inline(never)
    mutating func discard() {
        data?.release()
        data = nil
        rl_drop_all(descriptors, Int32(descriptorCount))
        descriptorCount = 0
        CRunLoopLinux.free(descriptors)
        descriptors = nil
    }

    /// Takes one datagram from a socket. `scratch` has room for the longest; `partial` is the connection's, `held` the port's.
    @inline(never)
    static func receive(
        from socket: Int32, by receiver: WireReceiver, scratch: UnsafeMutablePointer<UInt8>, partial: inout PartialMessage,
        held: inout HeldByParts
    ) -> Incoming {
        withUnsafeTemporaryAllocation(of: Int32.self, capacity: Int(RL_MAX_DESCRIPTORS)) { room in
            let descriptors = room.baseAddress!
            let datagram = rl_message_take(socket, scratch, WireHeader.size + WireHeader.inlineLimit, descriptors)
            if datagram.length < 0 { return rl_errno() == EAGAIN ? .nothing : rl_errno() == ENOMEM ? .later : .ended }
            if datagram.length == 0 && datagram.descriptors == 0 { return .ended }
            return decode(datagram, scratch, descriptors, by: receiver, &partial, &held)
        }
    }

    private static func decode(
        _ datagram: rl_datagram, _ bytes: UnsafeMutablePointer<UInt8>, _ descriptors: UnsafeMutablePointer<Int32>,
        by receiver: WireReceiver, _ partial: inout PartialMessage, _ held: inout HeldByParts
    ) -> Incoming {
        var count = Int(datagram.descriptors)
        var result = WireResult.refused(.tooLong)
        if !datagram.is_cut {
            result = WireHeader.decode(
                bytes, count: Int(datagram.length), descriptors: datagram.lost_descriptors ? nil : count, by: receiver)
        }
        let header: WireHeader
        switch result {
        case .refused(let error):
            close(descriptors, from: 0, count)
            return .refused(error)
        case .accepted(let accepted): header = accepted
        }
        let isLost = datagram.lost_descriptors
        if isLost {
            close(descriptors, from: 0, count)
            count = 0
        }
        if header.kind == .part { return partial.append(header, isLost ? -1 : descriptors[0], &held) }
        var message = IncomingMessage(header: header)
        var first = 0
        if header.flags & WireHeader.inMemory != 0 && !isLost {
            first = 1
            defer { rl_drop(descriptors[0]) }
            guard rl_holds(descriptors[0], Int(header.length), true) else {
                close(descriptors, from: 1, count)
                return .refused(.memory)
            }
            message.data = DataPointer.map(descriptors[0], Int(header.length))
        }
        if count > first {
            message.descriptors = makeArray(Int32.self, count: count - first)
            for index in first..<count { message.descriptors![index - first] = descriptors[index] }
            message.descriptorCount = count - first
        }
        if header.flags & WireHeader.inParts != 0 { return partial.begin(message, isLost: isLost, &held) }
        if first == 0 && !isLost { message.data = DataPointer.make(bytes + WireHeader.size, Int(header.length)) }
        return .message(message)
    }

    @inline(never)
    private static func close(_ descriptors: UnsafeMutablePointer<Int32>, from first: Int, _ count: Int) {
        rl_drop_all(descriptors + first, Int32(count - first))
    }
}
