// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Names, for people who debug: the description of a loop shows them (S-SEE-1). They are copies, objects without one pay nothing,
// and equality and hash do not depend on them.

/// What the program called an object of the C library.
func objectName(_ object: RLTypeRef) -> String? {
    guard let name = RLCopyName(object) else { return nil }
    defer { release(block: name) }
    return String(cString: name)
}

/// What an initializer is given for it.
func setName(of object: RLTypeRef, _ name: String?) {
    if let name { RLSetName(object, name) }
}

extension RunLoop {
    /// The program's name for the loop; initially nil.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }
}

extension RunLoop.Source {
    /// The program's name for the source; initially nil.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the source a name where it is made.
    ///
    /// - Parameter name: the new ``name``.
    /// - Returns: the source.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        self.name = name
        return self
    }
}

extension RunLoop.Observer {
    /// The program's name for the observer; initially nil.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the observer a name where it is made.
    ///
    /// - Parameter name: the new ``name``.
    /// - Returns: the observer.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        self.name = name
        return self
    }
}

extension RunLoop.Socket {
    /// The program's name for the socket; initially nil.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }
}

extension RunLoop.FileDescriptor {
    /// The program's name for the object; initially nil.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }
}

extension Timer {
    /// The program's name for the timer, in descriptions; initially nil. Subclasses often have a `name` of their own.
    ///
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public var debugName: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the timer a name where it is made: `Timer(timeInterval: …) { … }.named("flush")`.
    ///
    /// - Parameter name: the new ``debugName``.
    /// - Returns: the timer.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        debugName = name
        return self
    }
}
