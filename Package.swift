// swift-tools-version: 6.1
// The package builds the core as full Swift and RunLoopKit, the Swift API, over it. The C library
// itself, `librunloop.so`, is built by CMake from the same sources as Embedded Swift.
import PackageDescription

/// RunLoopKit over the core of this package: the default.
let bundledCore = TargetDependencyCondition.when(traits: ["BundledCore"])
/// RunLoopKit over the installed `librunloop.so`, which the C libraries of the process share.
let installedLibrary = TargetDependencyCondition.when(traits: ["InstalledLibrary"])

let package = Package(
    name: "RunLoop",
    products: [
        .library(name: "RunLoopKit", targets: ["RunLoopKit"]),
        .library(name: "RunLoopKitFoundation", targets: ["RunLoopKitFoundation"]),
        .library(name: "RunLoopKitXCTest", targets: ["RunLoopKitXCTest"]),
        .executable(name: "demo", targets: ["Demo"]),
        .executable(name: "mixed", targets: ["Mixed"]),
        .executable(name: "app", targets: ["App"]),
        .executable(name: "actor-on-loop", targets: ["ActorOnLoop"]),
        .executable(name: "exit-now", targets: ["ExitNow"]),
        .executable(name: "threads", targets: ["Threads"]),
        .executable(name: "locks", targets: ["Locks"]),
        .executable(name: "atomics", targets: ["Atomics"]),
        .executable(name: "line-server", targets: ["LineServer"]),
        .executable(name: "echo-server", targets: ["EchoServer"]),
        .executable(name: "tutorial", targets: ["Tutorial"]),
        .executable(name: "main-queue", targets: ["MainQueue"]),
        .executable(name: "forks", targets: ["Forks"]),
        .executable(name: "first-uses", targets: ["FirstUses"]),
        .executable(name: "echo-clients", targets: ["EchoClients"]),
        .executable(name: "hosting", targets: ["Hosting"]),
        .executable(name: "hops", targets: ["Hops"]),
        .executable(name: "swift-locks", targets: ["SwiftLocks"]),
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
        .target(name: "CLinux"),

        // The run loop itself. It needs no compiler flag, so that any package may depend on it.
        .target(
            name: "RunLoopCore",
            dependencies: ["CRunLoop", "CLinux"],
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
        .target(name: "RunLoopKitFoundation", dependencies: ["RunLoopKit", "CFoundationLoop"]),

        // Foundation's own run loop, which RunLoopKit's can host.
        .target(name: "CFoundationLoop"),

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
            name: "CHalf",
            dependencies: [
                .target(name: "CRunLoop", condition: bundledCore),
                .target(name: "CRunLoopInstalled", condition: installedLibrary),
            ],
            path: "Examples/Mixed/C"),
        .executableTarget(
            name: "Mixed",
            dependencies: ["CHalf", "RunLoopKit"],
            path: "Examples/Mixed/Swift"),

        // The demo: C threads count a file, Swift shows the progress.
        .target(
            name: "DemoCounter",
            dependencies: [
                .target(name: "CRunLoop", condition: bundledCore),
                .target(name: "CRunLoopInstalled", condition: installedLibrary),
            ],
            path: "Examples/Demo/Counter"),
        .executableTarget(
            name: "Demo",
            dependencies: ["DemoCounter", "RunLoopKit"],
            path: "Examples/Demo/Main"),

        // Examples of asynchronous code and of threads, and the program that shows who serves the main queue.
        .executableTarget(name: "App", dependencies: ["RunLoopKit"], path: "Examples/App"),
        .executableTarget(name: "ActorOnLoop", dependencies: ["RunLoopKit"], path: "Examples/ActorOnLoop"),
        .executableTarget(name: "ExitNow", dependencies: ["RunLoopKit"], path: "Examples/ExitNow"),
        .executableTarget(name: "Threads", dependencies: ["RunLoopKit"], path: "Examples/Threads"),
        .executableTarget(name: "Locks", dependencies: ["RunLoopKit"], path: "Examples/Locks"),
        .executableTarget(name: "Atomics", dependencies: ["RunLoopKit"], path: "Examples/Atomics"),
        .executableTarget(name: "LineServer", dependencies: ["RunLoopKit"], path: "Examples/LineServer"),
        .executableTarget(name: "EchoServer", dependencies: ["RunLoopKit"], path: "Examples/EchoServer"),
        // The last step of the tutorial in Sources/RunLoopKit/RunLoopKit.docc.
        .executableTarget(name: "Tutorial", dependencies: ["RunLoopKit"], path: "Examples/Tutorial"),
        .executableTarget(name: "SwiftLocks", dependencies: ["RunLoopKit"], path: "Bench/SwiftLocks"),
        .executableTarget(name: "Hops", dependencies: ["RunLoopKit"], path: "Bench/Hops"),
        .executableTarget(name: "MainQueue", dependencies: ["RunLoopKit"], path: "Tests/Programs/MainQueue"),
        .executableTarget(name: "Hosting", dependencies: ["RunLoopKitFoundation"], path: "Tests/Programs/Hosting"),
        .executableTarget(name: "EchoClients", path: "Tests/Programs/Echo"),
        .executableTarget(name: "Forks", dependencies: ["RunLoopKit", "Symbols"], path: "Tests/Programs/Forks"),
        .executableTarget(name: "FirstUses", dependencies: ["RunLoopKitXCTest", "Symbols"], path: "Tests/Programs/FirstUses"),
        .target(name: "Symbols", path: "Tests/Programs/Symbols"),
        .testTarget(
            name: "ExampleTests",
            dependencies: [
                "App", "ActorOnLoop", "ExitNow", "Threads", "Locks", "Atomics", "LineServer", "EchoServer", "EchoClients", "Tutorial", "MainQueue", "Forks",
                "FirstUses", "Hosting",
            ]),
    ],
    swiftLanguageModes: [.v6]
)
