// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// The same small program with each run loop, to be weighed: scripts/swift-sizes.
import PackageDescription

let package = Package(
    name: "SwiftSize",
    dependencies: [.package(name: "RunLoop", path: "../..")],
    targets: [
        .executableTarget(name: "WithFoundation"),
        .executableTarget(
            name: "WithRunLoopKit", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")]),
    ],
    swiftLanguageModes: [.v6]
)
