// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// The tests of RunLoopKit once more, here over the installed library: its core is Embedded Swift, while the
// core inside the package is full Swift. Tests/RunLoopKitTests is a link to the package's own tests.
import PackageDescription

let package = Package(
    name: "Kit",
    dependencies: [.package(name: "RunLoop", path: "../../..", traits: ["InstalledLibrary"])],
    targets: [
        .testTarget(
            name: "RunLoopKitTests", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")])
    ],
    swiftLanguageModes: [.v6]
)
