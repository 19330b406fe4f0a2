# SPDX-License-Identifier: MIT
# Compiles the Swift core into one object file.
#
# A custom command calls swiftc on all files at once (whole-module optimisation needs that anyway), so
# the project stays a C project for CMake: any generator works and no target mixes two languages.

find_program(RUNLOOP_SWIFTC swiftc REQUIRED DOC "The Swift compiler (6.3 or later)")

# The compiler itself knows where its runtime is; a path derived from the location of swiftc would be
# wrong under a toolchain manager.
execute_process(COMMAND ${RUNLOOP_SWIFTC} -print-target-info
    OUTPUT_VARIABLE rl_target_info COMMAND_ERROR_IS_FATAL ANY)
string(JSON RUNLOOP_SWIFT_VERSION GET "${rl_target_info}" compilerVersion)
string(JSON RUNLOOP_SWIFT_ARCH GET "${rl_target_info}" target arch)
string(JSON RUNLOOP_SWIFT_RESOURCES GET "${rl_target_info}" paths runtimeResourcePath)
set(RUNLOOP_SWIFT_RUNTIME ${RUNLOOP_SWIFT_RESOURCES}/linux)
if(RUNLOOP_SWIFT_VERSION MATCHES "Swift version ([0-9]+\\.[0-9]+)" AND CMAKE_MATCH_1 VERSION_LESS 6.3)
    message(FATAL_ERROR "RunLoop needs Swift 6.3 or later; ${RUNLOOP_SWIFTC} is ${RUNLOOP_SWIFT_VERSION}.")
endif()

# The clang of the Swift toolchain: for blocks, and for sanitizers whose runtime matches swiftc's.
# It is not searched in PATH, where another clang may come first.
get_filename_component(rl_bin ${RUNLOOP_SWIFT_RESOURCES}/../../bin ABSOLUTE)
find_program(RUNLOOP_CLANG clang HINTS ${rl_bin} NO_DEFAULT_PATH)
find_program(RUNLOOP_CLANGXX clang++ HINTS ${rl_bin} NO_DEFAULT_PATH)

set(RUNLOOP_OBJECTS_OF "" CACHE PATH "Build folder whose compiled core is taken, where it was compiled of the same files by the same command")

# rl_swift_object(<variable> [NAME <name>] [MODULE <name>] SOURCES <files> DEPENDS <files> [FLAGS <flags>]) sets the variable to
# the object's path. The module is the core unless it is named.
function(rl_swift_object variable)
    cmake_parse_arguments(arg "" "NAME;MODULE" "SOURCES;DEPENDS;FLAGS" ${ARGN})
    if(NOT arg_NAME)
        set(arg_NAME RunLoopCore)
    endif()
    if(NOT arg_MODULE)
        set(arg_MODULE RunLoopCore)
    endif()
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.o)
    set(flags ${RUNLOOP_SWIFT_TARGET} -parse-as-library -wmo -swift-version 6 -module-name ${arg_MODULE}
        -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/Sources/CLinux/include)
    if(RUNLOOP_CORE STREQUAL "embedded")
        # For size: what has to be in line on the hot paths says so itself, and Bench/guard counts their instructions. One
        # section per function lets the linker drop what nothing calls.
        list(APPEND flags -Osize -enable-experimental-feature Embedded
            -Xfrontend -function-sections -Xfrontend -disable-stack-protector -Xllvm -swiftmergefunc-threshold=0)
    elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
        list(APPEND flags -Onone)
    else()
        list(APPEND flags -O)
    endif()
    if(CMAKE_BUILD_TYPE MATCHES "Deb" OR RUNLOOP_SANITIZE)
        list(APPEND flags -g)
    else()
        # Brings unwind tables, which stay when the debug information is stripped.
        list(APPEND flags -gline-tables-only)
    endif()
    if(RUNLOOP_SANITIZE)
        list(APPEND flags -sanitize=${RUNLOOP_SANITIZE})
    endif()
    if(RUNLOOP_EXPLORE)
        list(APPEND flags -I ${PROJECT_SOURCE_DIR}/Tests/Explore/hooks -Xcc -DRL_EXPLORE=1)
    endif()
    set(other none)
    if(RUNLOOP_OBJECTS_OF)
        file(RELATIVE_PATH other ${PROJECT_BINARY_DIR} ${object})
        set(other ${RUNLOOP_OBJECTS_OF}/${other})
    endif()
    add_custom_command(OUTPUT ${object}
        COMMAND ${PROJECT_SOURCE_DIR}/cmake/compiled-once ${object} ${other}
            ${RUNLOOP_SWIFTC} ${flags} ${arg_FLAGS} ${RUNLOOP_SWIFT_FLAGS} -c ${arg_SOURCES}
        DEPENDS ${arg_SOURCES} ${arg_DEPENDS}
        COMMENT "Compiling ${arg_NAME} (${RUNLOOP_CORE})" VERBATIM COMMAND_EXPAND_LISTS)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    set(${variable} ${object} PARENT_SCOPE)
endfunction()
