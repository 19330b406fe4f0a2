# SPDX-License-Identifier: MIT
# Flags of the sanitized builds. The Swift object gets its own in RunLoopSwift.cmake.

if(NOT RUNLOOP_SANITIZE)
    return()
endif()
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "A sanitized build needs the clang of the Swift toolchain: ${RUNLOOP_CLANG}.")
endif()

if(RUNLOOP_SANITIZE STREQUAL "address")
    # Leaks are found by the address sanitizer itself, at exit. A callback has the types of the program's, which are not those of the pointer that it is called by.
    set(rl_sanitize_flags -fsanitize=address,undefined -fno-sanitize=function -fno-sanitize-recover=undefined)
else()
    set(rl_sanitize_flags -fsanitize=thread)
endif()
add_compile_options(${rl_sanitize_flags} -g -O1 -fno-omit-frame-pointer)
# The toolchain's own linker: gold warns about every symbol of the sanitizer runtime.
add_link_options(${rl_sanitize_flags} -fuse-ld=lld)
# Directory options do not reach targets that exist already.
foreach(target runloop_c runloop_cf_c runloop_cf_names)
    if(TARGET ${target})
        target_compile_options(${target} PRIVATE ${rl_sanitize_flags} -g)
    endif()
endforeach()
foreach(target runloop runloop_cf runloop_cf_names)
    if(TARGET ${target})
        target_link_options(${target} PRIVATE ${rl_sanitize_flags} -fuse-ld=lld)
    endif()
endforeach()

if(RUNLOOP_SANITIZE STREQUAL "thread")
    # The version script keeps these definitions inside the library, where they come before the runtime's.
    target_sources(runloop PRIVATE cmake/tsan_external.c)
    if(TARGET runloop_cf)
        target_sources(runloop_cf PRIVATE cmake/tsan_external.c)
    endif()
    # The toolchain's thread sanitizer intercepts libdispatch and wants its symbols in every program.
    link_libraries(-Wl,--no-as-needed -L${RUNLOOP_SWIFT_RUNTIME} -ldispatch -lBlocksRuntime
        -Wl,-rpath,${RUNLOOP_SWIFT_RUNTIME})
endif()
