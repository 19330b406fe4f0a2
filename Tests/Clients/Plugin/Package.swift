// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// A Swift program that loads a C plug-in linked to librunloop.so. Built with the trait InstalledLibrary
// both use one core; built with BundledCore they would use two, which the library refuses.
import PackageDescription

let package = Package(
    name: "Plugin",
    traits: [.default(enabledTraits: ["InstalledLibrary"]), "InstalledLibrary", "BundledCore"],
    dependencies: [
        .package(
            name: "RunLoop", path: "../../..",
            traits: [
                .trait(name: "InstalledLibrary", condition: .when(traits: ["InstalledLibrary"])),
                .trait(name: "BundledCore", condition: .when(traits: ["BundledCore"])),
            ])
    ],
    targets: [
        .executableTarget(
            name: "Host", dependencies: [.product(name: "RunLoopKit", package: "RunLoop")])
    ]
)
