// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// A package that takes RunLoopKit over the installed librunloop.so and uses Foundation besides.
import PackageDescription

let package = Package(
    name: "Installed",
    dependencies: [.package(name: "RunLoop", path: "../../..", traits: ["InstalledLibrary"])],
    targets: [
        .executableTarget(
            name: "Installed", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")])
    ]
)
