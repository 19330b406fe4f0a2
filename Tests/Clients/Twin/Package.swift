// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// Source files written for Foundation, each built twice: with Foundation, and with RunLoopKit. Of twin.swift, about run loops, the import
// alone differs; threads.swift, about threads and locks, is for RunLoopKit without Foundation and says first what its times are. The folders
// hold links to them. They are in the language mode of the programs they stand for: in Swift 6 mode Foundation's timer could not be
// captured where RunLoopKit's can.
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
        .executableTarget(name: "ThreadsWithFoundation"),
        .executableTarget(
            name: "ThreadsWithRunLoopKit",
            dependencies: [.product(name: "RunLoopKit", package: "RunLoop")],
            swiftSettings: [.define("RUNLOOPKIT")]),
    ],
    swiftLanguageModes: [.v5]
)
