// swift-tools-version: 6.1
// runloop-top and runloop-dump. A package of its own, so that RunLoopKit depends on nothing.
import PackageDescription

let package = Package(
    name: "runloop-tools",
    products: [.executable(name: "runloop-top", targets: ["runloop-top"])],
    dependencies: [.package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0")],
    targets: [
        // What the screen needs of ncurses and Swift cannot import.
        .target(name: "CTerminal", linkerSettings: [.linkedLibrary("ncursesw"), .linkedLibrary("tinfo")]),
        .executableTarget(
            name: "runloop-top",
            dependencies: ["CTerminal", .product(name: "ArgumentParser", package: "swift-argument-parser")]),
    ],
    swiftLanguageModes: [.v6]
)
