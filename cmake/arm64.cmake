# SPDX-License-Identifier: MIT
# Toolchain file: the Embedded library and the C tests for ARM64 Linux, built on another machine.
#
#   scripts/arm64-sysroot build-arm64/sysroot
#   cmake -S . -B build-arm64 -G Ninja --toolchain cmake/arm64.cmake -DRUNLOOP_SYSROOT=$PWD/build-arm64/sysroot
#
# Debian's packages for ARM64, unpacked in a folder, are the headers and libraries; the compilers are those of the Swift
# toolchain, which know every processor; ctest runs the programs in qemu's user mode. scripts/check-arm64 does all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(RUNLOOP_SYSROOT "" CACHE PATH "Folder with the headers and libraries of ARM64")
# CMake reads this file again in the small projects by which it tries the compiler.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RUNLOOP_SYSROOT)
if(NOT EXISTS ${RUNLOOP_SYSROOT}/usr/include)
    message(FATAL_ERROR "RUNLOOP_SYSROOT is no sysroot: '${RUNLOOP_SYSROOT}'. scripts/arm64-sysroot makes one.")
endif()
set(CMAKE_SYSROOT ${RUNLOOP_SYSROOT})

find_program(RUNLOOP_SWIFTC swiftc REQUIRED DOC "The Swift compiler (6.3 or later)")
execute_process(COMMAND ${RUNLOOP_SWIFTC} -print-target-info OUTPUT_VARIABLE rl_target_info COMMAND_ERROR_IS_FATAL ANY)
string(JSON rl_resources GET "${rl_target_info}" paths runtimeResourcePath)
get_filename_component(rl_toolchain_bin ${rl_resources}/../../bin ABSOLUTE)
set(CMAKE_C_COMPILER ${rl_toolchain_bin}/clang)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -fuse-ld=lld)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -fuse-ld=lld)
# The toolchain's llvm-ar and llvm-ranlib know every format; the machine's own may not.
find_program(rl_ar llvm-ar HINTS ${rl_toolchain_bin} NO_DEFAULT_PATH)
find_program(rl_ranlib llvm-ranlib HINTS ${rl_toolchain_bin} NO_DEFAULT_PATH)
if(rl_ar AND rl_ranlib)
    set(CMAKE_AR ${rl_ar})
    set(CMAKE_RANLIB ${rl_ranlib})
endif()

# The toolchain brings the Embedded standard library for ARM64 without an operating system, which needs none. The headers are
# Linux's all the same, and they are found by their folders, because that target has no C library of its own.
set(RUNLOOP_SWIFT_TARGET -target aarch64-none-none-elf -Xcc -nostdlibinc
    -Xcc -isystem${RUNLOOP_SYSROOT}/usr/include/aarch64-linux-gnu -Xcc -isystem${RUNLOOP_SYSROOT}/usr/include
    -Xcc -D__linux__ -Xcc -fPIC)
# In place of the toolchain's libraries, which are the building machine's: the sysroot's. libBlocksRuntime is among them,
# libdispatch is not.
set(RUNLOOP_SWIFT_LIBRARIES ${RUNLOOP_SYSROOT}/usr/lib/aarch64-linux-gnu)

set(ENV{PKG_CONFIG_LIBDIR} ${RUNLOOP_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${RUNLOOP_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${RUNLOOP_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

find_program(RUNLOOP_QEMU qemu-aarch64-static DOC "qemu's user mode for ARM64")
if(RUNLOOP_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${RUNLOOP_QEMU} -L ${RUNLOOP_SYSROOT})
endif()
