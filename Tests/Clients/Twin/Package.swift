// swift-tools-version: 6.1
// One source file, written for Foundation's run loop, built twice: with Foundation, and with RunLoopKit, where
// only its import differs. Both folders hold a link to twin.swift. It is in the language mode of the programs it
// stands for: in Swift 6 mode Foundation's timer could not be captured where RunLoopKit's can.
import PackageDescription

let package = Package(
    name: "Twin",
    dependencies: [.package(name: "RunLoop", path: "../../..")],
    targets: [
        .executableTarget(name: "WithFoundation"),
        .executableTarget(
            name: "WithRunLoopKit",
            dependencies: [.product(name: "RunLoopKitFoundation", package: "RunLoop")],
            swiftSettings: [.define("RUNLOOPKIT")]),
    ],
    swiftLanguageModes: [.v5]
)
