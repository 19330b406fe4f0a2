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

extension RunLoop {
    /// What the program calls the loop; nil at first.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }
}

extension RunLoop.Source {
    /// What the program calls the source; nil at first.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the source a name where it is made.
    ///
    /// - Parameter name: what ``name`` is from now on.
    /// - Returns: the source.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        self.name = name
        return self
    }
}

extension RunLoop.Observer {
    /// What the program calls the observer; nil at first.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var name: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the observer a name where it is made.
    ///
    /// - Parameter name: what ``name`` is from now on.
    /// - Returns: the observer.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        self.name = name
        return self
    }
}

extension Timer {
    /// What the program calls the timer, in descriptions; nil at first. Subclasses often have a `name` of their own.
    ///
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public var debugName: String? {
        get { objectName(RLTypeRef(reference)) }
        set { RLSetName(RLTypeRef(reference), newValue) }
    }

    /// Gives the timer a name where it is made: `Timer(timeInterval: …) { … }.named("flush")`.
    ///
    /// - Parameter name: what ``debugName`` is from now on.
    /// - Returns: the timer.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        debugName = name
        return self
    }
}
