// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The names that the program gave to objects (S-SEE-1), stored outside the objects: one without a name costs nothing, and a bit of its
/// header says at its end whether it has one. The registry's lock guards the set.
struct Names {
    /// The addresses of `NameRecord`s, keyed by their objects.
    var records: WordSet
    /// The addresses of `SourceLimit`s, keyed by their sources.
    var limits: WordSet
    /// Frees the accounts that loops have of an object that is `accounted`. Written when the library is loaded.
    var forgetAccounts: (@convention(c) (UnsafeMutableRawPointer) -> Void)?
    /// Records a new name in a trace, under the registry's lock. Written when the library is loaded.
    var traceLocked: (@convention(c) (UnsafeMutableRawPointer, UnsafePointer<CChar>) -> Void)?

    static var shared: UnsafeMutablePointer<Names> { rl_names().assumingMemoryBound(to: Names.self) }
}

/// The text follows the record in memory.
struct NameRecord {
    /// The object's address. The first word: it is the key of the record.
    var object: UInt
}

extension ObjectPointer {
    /// nil removes the name. The caller has a reference.
    func setName(_ name: UnsafePointer<CChar>?) {
        var word: UInt = 0
        if let name {
            let length = strlen(name)
            let record = makeRecord(NameRecord.self, tail: length + 1)
            record.pointee.object = UInt(bitPattern: self)
            memcpy(record + 1, name, length)
            word = UInt(bitPattern: record)
        }
        process.pointee.registryLock.lockWord()
        let old = Names.shared.pointee.records.remove(UInt(bitPattern: self), isKeyed: true)
        if word == 0 {
            pointee.marks.bitwiseAnd(~ObjectMarks.named, ordering: .relaxed)
        } else {
            Names.shared.pointee.records.insert(word, isKeyed: true)
            pointee.marks.bitwiseOr(ObjectMarks.named, ordering: .relaxed)
            if rl_tracing() != 0 { Names.shared.pointee.traceLocked!(UnsafeMutableRawPointer(self), name!) }
        }
        process.pointee.registryLock.unlockWord()
        CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: old))
    }

    var isNamed: Bool { pointee.marks.load(ordering: .relaxed) & ObjectMarks.named != 0 }

    /// From malloc; nil if it has no name.
    func copyName() -> UnsafeMutablePointer<CChar>? { isNamed ? ObjectPointer.copyName(at: UnsafeRawPointer(self)) : nil }

    /// The same for an object that another thread may free: only its address is used.
    @inline(never)
    static func copyName(at address: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        let word = Names.shared.pointee.records.find(UInt(bitPattern: address), isKeyed: true)
        guard let record = UnsafeMutablePointer<NameRecord>(bitPattern: word) else { return nil }
        return strdup(UnsafeRawPointer(record + 1).assumingMemoryBound(to: CChar.self))
    }

    /// The object is being freed: frees what its marks stand for.
    @inline(never)
    func forgetMarks() {
        if isNamed { setName(nil) }
        if pointee.marks.load(ordering: .relaxed) & ObjectMarks.limited != 0 { forgetLimit() }
        if pointee.marks.load(ordering: .relaxed) & ObjectMarks.accounted != 0 { Names.shared.pointee.forgetAccounts!(self) }
        pointee.marks.store(0, ordering: .relaxed)
    }

    private func forgetLimit() {
        process.pointee.registryLock.lockWord()
        let limit = Names.shared.pointee.limits.remove(UInt(bitPattern: self), isKeyed: true)
        process.pointee.registryLock.unlockWord()
        CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: limit))
    }
}
