// swift-tools-version: 6.1
// SPDX-License-Identifier: MIT
// The package builds the core as full Swift and RunLoopKit, the Swift API, over it. The C library
// itself, `librunloop.so`, is built by CMake from the same sources as Embedded Swift.
import PackageDescription

/// RunLoopKit over the core of this package: the default.
let bundledCore = TargetDependencyCondition.when(traits: ["BundledCore"])
/// RunLoopKit over the installed `librunloop.so`, which the C libraries of the process share.
let installedLibrary = TargetDependencyCondition.when(traits: ["InstalledLibrary"])

/// The steps of the tutorial, each of which is a program; the last one is among the examples too.
let tutorialSteps = ["01-thread", "02-perform", "03-executor", "04-ticks", "05-readiness"]
let tutorialStepTargets = tutorialSteps.map { "RunLoopExampleTutorial-\($0)" }
let tutorialFiles = (tutorialSteps + ["06-signals"]).map { "\($0).swift" } + ["pass.svg"]

// Names of targets and of their products are unique in all packages that a program is made of, also those of examples and of test
// programs: hence their prefixes, and none is a product of its own. `Atomics`, say, is swift-atomics's, which SwiftNIO needs, and a
// program of a user's may well be called `app`.
let package = Package(
    name: "RunLoop",
    products: [
        .library(name: "RunLoopKit", targets: ["RunLoopKit"]),
        .library(name: "RunLoopKitFoundation", targets: ["RunLoopKitFoundation"]),
        .library(name: "RunLoopKitXCTest", targets: ["RunLoopKitXCTest"]),
    ],
    traits: [
        .default(enabledTraits: ["BundledCore"]),
        .trait(
            name: "BundledCore",
            description: "RunLoopKit brings its own core; for programs without C libraries that use RunLoop."),
        .trait(
            name: "InstalledLibrary",
            description: "RunLoopKit uses the installed librunloop.so, together with C libraries that do."),
    ],
    targets: [
        // The public C headers, and the constants they declare.
        .target(
            name: "CRunLoop",
            path: ".",
            sources: ["Sources/CRunLoop/constants.c"],
            publicHeadersPath: "include"),

        // The headers of the kernel and of libc, for the core alone.
        .target(name: "CRunLoopLinux", path: "Sources/CLinux"),

        // The run loop itself. It needs no compiler flag, so that any package may depend on it.
        .target(
            name: "RunLoopCore",
            dependencies: ["CRunLoop", "CRunLoopLinux"],
            linkerSettings: [.linkedLibrary("bsd")]),

        // The same headers as the installed library has them.
        .systemLibrary(name: "CRunLoopInstalled", pkgConfig: "runloop"),

        // The Swift API. It sees the core through the C headers only.
        .target(
            name: "RunLoopKit",
            dependencies: [
                .target(name: "CRunLoop", condition: bundledCore),
                .target(name: "RunLoopCore", condition: bundledCore),
                .target(name: "CRunLoopInstalled", condition: installedLibrary),
            ]),

        // What takes Foundation's dates, for source files written for Foundation's run loop.
        .target(name: "RunLoopKitFoundation", dependencies: ["RunLoopKit", "CRunLoopFoundation"]),

        // Foundation's own run loop, which RunLoopKit's can host.
        .target(name: "CRunLoopFoundation"),

        // The same for test files that import XCTest, which brings Foundation along.
        .target(name: "RunLoopKitXCTest", dependencies: ["RunLoopKitFoundation"]),

        .testTarget(
            name: "RunLoopKitXCTestTests", dependencies: ["RunLoopKitXCTest"],
            swiftSettings: [.swiftLanguageMode(.v5)]),
        .testTarget(name: "RunLoopKitTests", dependencies: ["RunLoopKit"]),
        .testTarget(name: "RunLoopKitFoundationTests", dependencies: ["RunLoopKitFoundation"]),
        .testTarget(name: "RunLoopCoreTests", dependencies: ["CRunLoop", "RunLoopCore"]),

        // An example: C code and Swift code on one loop.
        .target(
            name: "RunLoopExampleMixedHalf",
            dependencies: [
                .target(name: "CRunLoop", condition: bundledCore),
                .target(name: "CRunLoopInstalled", condition: installedLibrary),
            ],
            path: "Examples/Mixed/C"),
        .executableTarget(
            name: "RunLoopExampleMixed",
            dependencies: ["RunLoopExampleMixedHalf", "RunLoopKit"],
            path: "Examples/Mixed/Swift"),

        // The demo: C threads count a file, Swift shows the progress.
        .target(
            name: "RunLoopExampleDemoCounter",
            dependencies: [
                .target(name: "CRunLoop", condition: bundledCore),
                .target(name: "CRunLoopInstalled", condition: installedLibrary),
            ],
            path: "Examples/Demo/Counter"),
        .executableTarget(
            name: "RunLoopExampleDemo",
            dependencies: ["RunLoopExampleDemoCounter", "RunLoopKit"],
            path: "Examples/Demo/Main"),

        // Examples of asynchronous code and of threads, and the program that shows who serves the main queue.
        .executableTarget(name: "RunLoopExampleApp", dependencies: ["RunLoopKit"], path: "Examples/App"),
        .executableTarget(name: "RunLoopExampleActorOnLoop", dependencies: ["RunLoopKit"], path: "Examples/ActorOnLoop"),
        .executableTarget(name: "RunLoopExampleExitNow", dependencies: ["RunLoopKit"], path: "Examples/ExitNow"),
        .executableTarget(name: "RunLoopExampleThreads", dependencies: ["RunLoopKit"], path: "Examples/Threads"),
        .executableTarget(name: "RunLoopExampleLocks", dependencies: ["RunLoopKit"], path: "Examples/Locks"),
        .executableTarget(name: "RunLoopExampleAtomics", dependencies: ["RunLoopKit"], path: "Examples/Atomics"),
        .executableTarget(name: "RunLoopExampleLineServer", dependencies: ["RunLoopKit"], path: "Examples/LineServer"),
        .executableTarget(name: "RunLoopExampleEchoServer", dependencies: ["RunLoopKit"], path: "Examples/EchoServer"),
        // The last step of the tutorial in Sources/RunLoopKit/RunLoopKit.docc.
        .executableTarget(name: "RunLoopExampleTutorial", dependencies: ["RunLoopKit"], path: "Examples/Tutorial"),
        .executableTarget(name: "RunLoopBenchSwiftLocks", dependencies: ["RunLoopKit"], path: "Bench/SwiftLocks"),
        .executableTarget(name: "RunLoopBenchHops", dependencies: ["RunLoopKit"], path: "Bench/Hops"),
        .executableTarget(name: "RunLoopTestMainQueue", dependencies: ["RunLoopKit"], path: "Tests/Programs/MainQueue"),
        .executableTarget(name: "RunLoopTestHosting", dependencies: ["RunLoopKitFoundation"], path: "Tests/Programs/Hosting"),
        .executableTarget(name: "RunLoopTestEchoClients", path: "Tests/Programs/Echo"),
        .executableTarget(name: "RunLoopTestForks", dependencies: ["RunLoopKit", "RunLoopTestSymbols"], path: "Tests/Programs/Forks"),
        .executableTarget(name: "RunLoopTestMachine", dependencies: ["RunLoopKit"], path: "Tests/Programs/Machine", exclude: ["README.md"]),
        .executableTarget(
            name: "RunLoopTestFirstUses", dependencies: ["RunLoopKitXCTest", "RunLoopTestSymbols"], path: "Tests/Programs/FirstUses"),
        .target(name: "RunLoopTestSymbols", path: "Tests/Programs/Symbols"),
        .testTarget(
            name: "RunLoopExampleTests",
            dependencies: [
                "RunLoopExampleApp", "RunLoopExampleActorOnLoop", "RunLoopExampleExitNow", "RunLoopExampleThreads", "RunLoopExampleLocks",
                "RunLoopExampleAtomics", "RunLoopExampleLineServer", "RunLoopExampleEchoServer", "RunLoopExampleTutorial",
                "RunLoopTestEchoClients", "RunLoopTestMainQueue", "RunLoopTestForks", "RunLoopTestFirstUses", "RunLoopTestHosting", "RunLoopTestMachine",
            ] + tutorialStepTargets.map { .byName(name: $0) },
            path: "Tests/ExampleTests"),
    ] + zip(tutorialSteps, tutorialStepTargets).map { step, target in
        .executableTarget(
            name: target, dependencies: ["RunLoopKit"], path: "Sources/RunLoopKit/RunLoopKit.docc/Resources",
            exclude: tutorialFiles.filter { $0 != "\(step).swift" }, sources: ["\(step).swift"])
    },
    swiftLanguageModes: [.v6]
)
