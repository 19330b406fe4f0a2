// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// runloop-top and runloop-dump. A package of its own, so that RunLoopKit depends on nothing.
import PackageDescription

// A package of a distribution is built without a network: what would be fetched is in this folder of its source (scripts/vendor).
let vendor = Context.environment["RUNLOOP_VENDOR"]
let parser: Package.Dependency =
    if let vendor {
        .package(path: "\(vendor)/swift-argument-parser")
    } else {
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0")
    }

let package = Package(
    name: "runloop-tools",
    products: [.executable(name: "runloop-top", targets: ["runloop-top"])],
    dependencies: [parser],
    targets: [
        // What the screen needs of ncurses and Swift cannot import.
        .target(name: "CTerminal", linkerSettings: [.linkedLibrary("ncursesw"), .linkedLibrary("tinfo")]),
        // Connections whose calls may wait, in threads of their own.
        .target(name: "CPeer"),
        .executableTarget(
            name: "runloop-top",
            dependencies: ["CPeer", "CTerminal", .product(name: "ArgumentParser", package: "swift-argument-parser")]),
    ],
    swiftLanguageModes: [.v6]
)
