// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// A package that depends on RunLoop by path and takes its defaults: the core comes with it.
import PackageDescription

let package = Package(
    name: "Bundled",
    dependencies: [.package(name: "RunLoop", path: "../../..")],
    targets: [
        .executableTarget(
            name: "Bundled", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")])
    ]
)
