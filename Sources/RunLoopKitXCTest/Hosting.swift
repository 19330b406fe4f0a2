// SPDX-License-Identifier: MIT
/// Waits for expectations run Foundation's loop; the main thread's loop hosts it, so that timers and sources of the tests are served.
private final class HostingBegin: NSObject, XCTestObservation {
    func testBundleWillStart(_ testBundle: Bundle) { RunLoop.hostsFoundation() }
}

@section(".init_array") @used
private let loadConstructor: @convention(c) () -> Void = { XCTestObservationCenter.shared.addTestObserver(HostingBegin()) }
