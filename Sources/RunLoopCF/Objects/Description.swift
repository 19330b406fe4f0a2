// SPDX-License-Identifier: MIT
import CRunLoopCF

// Texts of objects for people, and what %@ of a format prints.

/// Appends to a string that becomes a description.
extension StringPointer {
    func append(_ text: StaticString) { append(Text(ascii: text)) }

    func append(cString: UnsafePointer<CChar>) {
        let part = makeString(cString)
        append(Text(part, "CFCopyDescription"))
        releaseOurs(HeaderPointer(part))
    }

    func append(_ number: Int) {
        let isNegative = number < 0
        var rest = number.magnitude
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { buffer in
            var begin = 24
            repeat {
                begin -= 1
                buffer[begin] = UInt8(0x30 + rest % 10)
                rest /= 10
            } while rest > 0
            if isNegative {
                begin -= 1
                buffer[begin] = 0x2d
            }
            append(Text(narrow: UnsafePointer(buffer.baseAddress! + begin), wide: nil, count: 24 - begin))
        }
    }

    func append(address: UnsafeRawPointer?) {
        append("0x")
        let address = UInt(bitPattern: address)
        var shift = 60
        while shift > 0 && address >> UInt(shift) == 0 { shift -= 4 }
        while shift >= 0 {
            let digit = address >> UInt(shift) & 15
            append(character: UInt32(digit < 10 ? 0x30 + digit : 0x57 + digit))
            shift -= 4
        }
    }

    /// A double with as many digits as it takes to read it back.
    func append(_ value: Double, digits: Int32) {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
            rlcf_print_double(buffer.baseAddress!, 64, value, digits)
            append(cString: buffer.baseAddress!)
        }
    }

    /// What a format prints for an object: a string's text, a number's value, else its description.
    func append(object: UnsafeRawPointer?) {
        guard let object else { return append("(null)") }
        let kind = rlcf_kind(object)
        switch kind {
        case Kind.string, Kind.constant: append(Text(OpaquePointer(object), "CFStringCreateWithFormat"))
        case Kind.number: append(value: NumberPointer(OpaquePointer(object)))
        case Kind.boolean: append(OpaquePointer(object) == rlcf_true_address() ? "true" : "false")
        case Kind.null: append("null")
        default:
            guard let description = RLCFCopyDescription(object) else { return }
            append(Text(description, "CFCopyDescription"))
            RLCFRelease(UnsafeRawPointer(description))
        }
    }

    fileprivate func append(value number: NumberPointer) {
        let real = number.pointee.real
        if number.pointee.type < 5 {
            append(Int(number.pointee.integer))
        } else if real == 0 {
            append("0.0")
        } else if real.isInfinite {
            append(real < 0 ? "-infinity" : "+infinity")
        } else {
            append(real, digits: 17)
        }
    }

    fileprivate func append(value: UnsafeRawPointer?, _ describe: TableCallbacks.Describe?) {
        if let describe, let text = describe(value) {
            append(Text(text, "CFCopyDescription"))
            RLCFRelease(UnsafeRawPointer(text))
        } else {
            append(address: value)
        }
    }
}

/// What `CFCopyTypeIDDescription` says, and descriptions begin with.
private func name(_ type: UInt) -> StaticString? {
    switch type {
    case RLDataGetTypeID(), UInt(Kind.data): return "CFData"
    case RLGetTypeID(): return "CFRunLoop"
    case RLSourceGetTypeID(): return "CFRunLoopSource"
    case RLObserverGetTypeID(): return "CFRunLoopObserver"
    case RLTimerGetTypeID(): return "CFRunLoopTimer"
    case RLFileDescriptorGetTypeID(): return "CFFileDescriptor"
    case RLMachPortGetTypeID(): return "CFMachPort"
    case RLMessagePortGetTypeID(): return "CFMessagePort"
    case RLSocketGetTypeID(): return "CFSocket"
    case UInt(Kind.string): return "CFString"
    case UInt(Kind.array): return "CFArray"
    case UInt(Kind.set): return "CFSet"
    case UInt(Kind.dictionary): return "CFDictionary"
    case UInt(Kind.number): return "CFNumber"
    case UInt(Kind.boolean): return "CFBoolean"
    case UInt(Kind.null): return "CFNull"
    case UInt(Kind.allocator): return "CFAllocator"
    case UInt(Kind.date): return "CFDate"
    default: return nil
    }
}

@c @implementation
public func RLCFCopyTypeIDDescription(_ type: UInt) -> OpaquePointer? {
    name(type).flatMap { makeString(systemAllocator, Text(ascii: $0))?.handle }
}

@c @implementation
public func RLCFCopyDescription(_ reference: UnsafeRawPointer?) -> OpaquePointer? {
    let kind = objectKind(reference, "CFCopyDescription")
    let type = RLCFGetTypeID(reference)
    guard let text = makeMutableString(systemAllocator) else { return nil }
    text.append("<")
    text.append(name(type) ?? "CFType")
    text.append(" ")
    text.append(address: reference)
    text.append(">")
    if Kind.isRunLoops(kind) && type != RLDataGetTypeID() {
        // librunloop's "<RLTimer 0x…>{…}" from the brace on.
        if let words = RLCopyDescription(reference) {
            if let rest = strchr(words, 0x7b) { text.append(cString: rest) }
            free(words)
        }
    } else {
        text.append("{")
        describe(reference!, type, text)
        text.append("}")
    }
    text.freeze()
    return text.handle
}

private func describe(_ reference: UnsafeRawPointer, _ type: UInt, _ text: StringPointer) {
    let handle = OpaquePointer(reference)
    if type == RLDataGetTypeID() {
        text.append("length = ")
        text.append(Bytes(handle, "CFCopyDescription").count)
        return
    }
    switch UInt32(type) {
    case Kind.string:
        text.append("contents = \"")
        text.append(Text(handle, "CFCopyDescription"))
        text.append("\"")
    case Kind.array:
        let array = ArrayPointer(handle)
        text.append("count = ")
        text.append(array.pointee.count)
        text.append(", values = (")
        for index in 0..<array.pointee.count {
            text.append(" ")
            text.append(value: array.pointee.values![index], array.pointee.callbacks.copyDescription)
        }
        text.append(" )")
    case Kind.set, Kind.dictionary:
        let table = TablePointer(handle)
        text.append("count = ")
        text.append(table.pointee.count)
        text.append(UInt32(type) == Kind.set ? ", values = (" : ", entries = (")
        table.forEach { key, value in
            text.append(" ")
            text.append(value: key, table.pointee.callbacks.describe)
            if UInt32(type) == Kind.set { return }
            text.append(" = ")
            text.append(value: value, table.pointee.callbacks.describeValue)
        }
        text.append(" )")
    case Kind.number:
        text.append("value = ")
        text.append(value: NumberPointer(handle))
    case Kind.boolean:
        text.append("value = ")
        text.append(object: reference)
    case Kind.date:
        text.append("time = ")
        text.append(DatePointer(handle).pointee.time, digits: 17)
    case Kind.allocator:
        let context = AllocatorPointer(handle).pointee.context
        text.append("info = ")
        if let describe = context.copyDescription, let words = describe(context.info) {
            text.append(Text(words, "CFCopyDescription"))
            RLCFRelease(UnsafeRawPointer(words))
        } else {
            text.append(address: context.info)
        }
    default: break
    }
}

@c @implementation
public func RLCFShow(_ reference: UnsafeRawPointer?) {
    guard let line = makeMutableString(systemAllocator) else { return }
    line.append(object: reference)
    line.append("\n")
    let text = Text(line)
    let bytes = needMemory(systemAllocator, text.count * 3).assumingMemoryBound(to: UInt8.self)
    let done = encode(text, Encoding.utf8, lossByte: 0x3f, isExternal: false, bytes, room: text.count * 3)
    rlcf_write(bytes, done.bytes)
    free(bytes)
    releaseOurs(line.header)
}

// MARK: For format.c

@c @implementation
public func rlcf_append_bytes(_ string: UnsafeMutableRawPointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int) {
    guard let bytes, count > 0 else { return }
    let string = StringPointer(OpaquePointer(string!))
    let start = UnsafeRawPointer(bytes).assumingMemoryBound(to: UInt8.self)
    guard let part = makeString(systemAllocator, bytes: start, count, Encoding.utf8, isExternal: true)
        ?? makeString(systemAllocator, bytes: start, count, Encoding.latin1, isExternal: false)
    else { return }
    string.append(Text(part))
    releaseOurs(part.header)
}

@c @implementation
public func rlcf_append_object(_ string: UnsafeMutableRawPointer?, _ object: UnsafeRawPointer?) {
    StringPointer(OpaquePointer(string!)).append(object: object)
}

@c @implementation
public func rlcf_append_units(_ string: UnsafeMutableRawPointer?, _ units: UnsafePointer<UInt16>?, _ count: Int) {
    StringPointer(OpaquePointer(string!)).append(Text(units: units, count: count))
}
