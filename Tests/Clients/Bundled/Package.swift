// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// A package that depends on RunLoop by path and takes its defaults: the core comes with it. Names of targets and of programs are unique in
// all packages of a build, so its other ones have names that examples and C parts of RunLoop would have.
import PackageDescription

let package = Package(
    name: "Bundled",
    dependencies: [.package(name: "RunLoop", path: "../../..")],
    targets: [
        .executableTarget(
            name: "Bundled", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")]),
        .target(name: "CLinux"),
    ] + ["app", "demo", "threads"].map {
        .executableTarget(
            name: $0, dependencies: ["CLinux", .product(name: "RunLoopKit", package: "RunLoop")])
    }
)
