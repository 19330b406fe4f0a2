// swift-tools-version: 6.2
// SPDX-License-Identifier: MIT
// RunLoopKit beside the packages that servers in Swift are made of: swift-service-lifecycle, swift-log, swift-metrics and SwiftNIO. It
// is a package of its own, so that RunLoopKit itself depends on none of them.
import PackageDescription

let package = Package(
    name: "RunLoopIntegrations",
    products: [
        .library(name: "RunLoopService", targets: ["RunLoopService"]),
        .library(name: "RunLoopLogging", targets: ["RunLoopLogging"]),
        .library(name: "RunLoopMetrics", targets: ["RunLoopMetrics"]),
        .library(name: "RunLoopNIO", targets: ["RunLoopNIO"]),
    ],
    dependencies: [
        .package(name: "RunLoop", path: ".."),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.6.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.5.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.80.0"),
    ],
    targets: [
        .target(
            name: "RunLoopService",
            dependencies: [
                .product(name: "RunLoopKit", package: "RunLoop"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
        .target(
            name: "RunLoopLogging",
            dependencies: [.product(name: "RunLoopKit", package: "RunLoop"), .product(name: "Logging", package: "swift-log")]),
        .target(
            name: "RunLoopMetrics",
            dependencies: [.product(name: "RunLoopKit", package: "RunLoop"), .product(name: "CoreMetrics", package: "swift-metrics")]),
        .target(
            name: "RunLoopNIO",
            dependencies: [.product(name: "RunLoopKit", package: "RunLoop"), .product(name: "NIOCore", package: "swift-nio")]),
        .executableTarget(
            name: "NIOBeside",
            dependencies: ["RunLoopNIO", .product(name: "NIOPosix", package: "swift-nio")]),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "RunLoopService", "RunLoopLogging", "RunLoopMetrics", "RunLoopNIO",
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
