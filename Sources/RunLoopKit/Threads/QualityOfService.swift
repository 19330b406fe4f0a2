// SPDX-License-Identifier: MIT
/// How a thread shares the processor with others; a request to the scheduler, which a system may not grant.
///
/// The values become nice values of the thread.
///
/// - Foundation: `QualityOfService`, which files that import RunLoopKitFoundation use instead.
public enum QualityOfService: Int, Sendable, CaseIterable {
    /// For what somebody sees at once.
    case userInteractive = 0x21
    /// For work that somebody asked for and waits for.
    case userInitiated = 0x19
    /// For long work whose progress somebody follows.
    case utility = 0x11
    /// For work that nobody waits for.
    case background = 0x09
    /// Like threads that are not told otherwise.
    case `default` = -1

    var niceValue: CInt {
        switch self {
        case .background: 10
        case .utility: 5
        case .default: 0
        case .userInitiated: -2
        case .userInteractive: -5
        }
    }
}
