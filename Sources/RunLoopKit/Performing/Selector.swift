// SPDX-License-Identifier: MIT
/// Names an action of an object: Swift's replacement for Objective-C's selectors, which do not exist on Linux.
///
///     extension Selector<Document> {
///         static let save = Selector("save") { document, _ in document.save() }
///     }
///     document.perform(.save, with: nil, afterDelay: .seconds(1))
///
/// Two selectors are equal when their names are.
///
/// Foundation: `Selector`.
public struct Selector<Target: AnyObject>: Hashable, Sendable {
    /// The name that distinguishes the selector from others of its class.
    public let name: String
    let action: @Sendable (Target, (any Sendable)?) -> Void

    /// Makes a selector.
    ///
    /// - Parameters:
    ///   - name: distinguishes it from the others of its class.
    ///   - action: called with the object and the argument of the request.
    public init(_ name: String, _ action: @escaping @Sendable (Target, (any Sendable)?) -> Void) {
        self.name = name
        self.action = action
    }

    /// Whether the names are the same.
    public static func == (one: Selector, other: Selector) -> Bool { one.name == other.name }

    /// Feeds the name to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

/// A request to an object: target, selector and argument, all kept until it was performed or is dropped (S-PERF-9).
///
/// The C library holds one reference to it and drops it once.
class PerformRequest {
    let name: String
    let target: AnyObject
    let argument: (any Sendable)?
    private let body: @Sendable () -> Void

    init<Target: AnyObject & Sendable>(_ selector: Selector<Target>, _ target: Target, _ argument: (any Sendable)?) {
        name = selector.name
        self.target = target
        self.argument = argument
        body = { selector.action(target, argument) }
    }

    func perform() { body() }

    /// Whether it is a request of the same selector with an equal argument to the same object (S-PERF-20).
    func isLike(_ other: PerformRequest) -> Bool {
        name == other.name && target === other.target && isSameSender(argument, other.argument)
    }

    /// The C library's handle of the request; it owns one reference.
    func retained() -> UnsafeMutableRawPointer { Unmanaged.passRetained(self).toOpaque() }

    static func of(_ info: UnsafeRawPointer) -> PerformRequest {
        Unmanaged<PerformRequest>.fromOpaque(info).takeUnretainedValue()
    }
}

func performRequest(_ info: UnsafeMutableRawPointer?) { PerformRequest.of(info!).perform() }

func releaseRequest(_ info: UnsafeMutableRawPointer?) { Unmanaged<PerformRequest>.fromOpaque(info!).release() }
