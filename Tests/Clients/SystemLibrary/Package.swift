// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// A Swift program that uses the installed C library without RunLoopKit, through its module map.
import PackageDescription

let package = Package(
    name: "SystemLibrary",
    targets: [
        .systemLibrary(name: "CRunLoopSystem", pkgConfig: "runloop"),
        .executableTarget(name: "Direct", dependencies: ["CRunLoopSystem"]),
    ],
    swiftLanguageModes: [.v6]
)
