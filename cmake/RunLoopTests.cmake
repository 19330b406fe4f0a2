# SPDX-License-Identifier: MIT
# rl_add_test: one test program, linked to the library and registered with ctest.
#
#   rl_add_test(NAME <name> SOURCES <c files...> [CHECK] [BLOCKS] [LABELS <labels...>] [TIMEOUT <seconds>]
#               [ARGS <arguments...>] [LIBS <libraries...>] [OPTIONS <compiler options...>] [PROGRAM <file name>]
#               [PASS <patterns...>] [WILL_FAIL])
#
# CHECK links the Check framework, BLOCKS compiles with clang's blocks and links their runtime, PASS
# lists extended regular expressions that lines of the output must match in this order. The time
# limit (120 s unless given) is five times longer under a sanitizer or an emulator.

# The programs do not depend on how the core is compiled, and they find the library at run time. So a second build can run
# the programs of a first one: LD_LIBRARY_PATH, which comes before their own path, names the folder of its library.
set(RUNLOOP_TEST_PROGRAMS "" CACHE PATH "Build folder whose test programs are run with this build's library; none are built here")

find_package(Threads REQUIRED)
pkg_check_modules(CHECK IMPORTED_TARGET check)

# A program that defines a libc function itself is found by the library only if the name is exported;
# the linker exports it because the library it links refers to it.
set(rl_test_flags -Wall -Wextra -g)

# Programs with Check multiply the limits of their cases; in others RL_TEST_TIMEOUT is the limit of a case in seconds. A case
# has 4 seconds unless it asks for more, too few on a machine that also compiles.
set(rl_test_environment "CK_TIMEOUT_MULTIPLIER=3")
if(RUNLOOP_SWIFT_TARGET)
    # An emulated processor is slow.
    set(rl_test_environment "CK_TIMEOUT_MULTIPLIER=5" "RL_TEST_TIMEOUT=300")
    if(CMAKE_CROSSCOMPILING_EMULATOR)
        # Some tests start themselves.
        string(REPLACE ";" " " words "${CMAKE_CROSSCOMPILING_EMULATOR}")
        list(APPEND rl_test_environment "RL_EMULATOR=${words}")
    endif()
endif()
if(RUNLOOP_TEST_PROGRAMS)
    list(APPEND rl_test_environment "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}")
endif()
if(RUNLOOP_SANITIZE)
    set(supp ${PROJECT_SOURCE_DIR}/scripts/suppressions)
    # Tests fork (Check runs each case in a child), and a thread may outlive main.
    set(rl_test_environment "CK_TIMEOUT_MULTIPLIER=5" "RL_TEST_TIMEOUT=300"
        "TSAN_OPTIONS=suppressions=${supp}/thread.supp:die_after_fork=0:atexit_sleep_ms=0:second_deadlock_stack=1:allocator_may_return_null=1"
        "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0:allocator_may_return_null=1"
        "LSAN_OPTIONS=suppressions=${supp}/address.supp:print_suppressions=0"
        "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
endif()

# Sets <variable> to the seconds ctest gives a test that would take at most <seconds> unsanitized, on this machine's processor.
function(rl_time_limit variable seconds)
    if(RUNLOOP_SANITIZE OR RUNLOOP_SWIFT_TARGET)
        math(EXPR seconds "${seconds} * 5")
    endif()
    set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

# Everything a registered test has, whether its program was built here or elsewhere.
function(rl_test_properties name)
    cmake_parse_arguments(arg "WILL_FAIL" "TIMEOUT" "LABELS" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    rl_time_limit(limit ${arg_TIMEOUT})
    # The longest begin first, or the last of them would run alone at the end of every first run.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} COST ${limit} ENVIRONMENT "${rl_test_environment}")
    if(arg_LABELS)
        set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
    endif()
    if(arg_WILL_FAIL)
        set_tests_properties(${name} PROPERTIES WILL_FAIL TRUE)
    endif()
endfunction()

# rl_add_program: an executable of the tests, or, where another build's are run, that build's. It is linked to what LIBS names.
#
#   rl_add_program(<name> SOURCES <c files...> [LIBS <libraries...>] [OPTIONS <compiler options...>] [PROGRAM <file name>])
function(rl_add_program name)
    cmake_parse_arguments(arg "" "PROGRAM" "SOURCES;LIBS;OPTIONS" ${ARGN})
    if(NOT arg_PROGRAM)
        set(arg_PROGRAM ${name})
    endif()
    if(RUNLOOP_TEST_PROGRAMS)
        file(RELATIVE_PATH folder ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
        add_executable(${name} IMPORTED GLOBAL)
        set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${RUNLOOP_TEST_PROGRAMS}/${folder}/${arg_PROGRAM})
        return()
    endif()
    add_executable(${name} ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES C_STANDARD 99 C_EXTENSIONS ON OUTPUT_NAME ${arg_PROGRAM})
    target_compile_options(${name} PRIVATE ${rl_test_flags} ${arg_OPTIONS})
    target_link_libraries(${name} PRIVATE ${arg_LIBS} Threads::Threads)
endfunction()

# rl_add_test_library: what several test programs share, compiled once. A static library gives each the files it calls.
#
#   rl_add_test_library(<name> STATIC|OBJECT SOURCES <c files...> [LIBS <libraries...>] [OPTIONS <compiler options...>])
function(rl_add_test_library name kind)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBS;OPTIONS" ${ARGN})
    if(RUNLOOP_TEST_PROGRAMS)
        return()
    endif()
    add_library(${name} ${kind} ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES C_STANDARD 99 C_EXTENSIONS ON)
    target_compile_options(${name} PRIVATE ${rl_test_flags} ${arg_OPTIONS})
    target_link_libraries(${name} PUBLIC RunLoop::runloop Threads::Threads ${arg_LIBS})
    target_include_directories(${name} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()

# The C compiler may know no blocks (gcc): such a program is then built by the toolchain's clang.
# Sets <variable> to what add_test runs.
function(rl_add_blocks_program variable target)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
    if(RUNLOOP_TEST_PROGRAMS)
        file(RELATIVE_PATH folder ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
        set(folder ${RUNLOOP_TEST_PROGRAMS}/${folder})
        if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
            string(APPEND folder /blocks)
        endif()
        set(${variable} ${folder}/${target} PARENT_SCOPE)
        return()
    endif()
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        add_executable(${target} ${arg_SOURCES})
        set(${variable} $<TARGET_FILE:${target}> PARENT_SCOPE)
        target_compile_options(${target} PRIVATE ${rl_test_flags} -fblocks)
        target_link_libraries(${target} PRIVATE RunLoop::runloop Threads::Threads ${arg_LIBS}
            -L${RUNLOOP_SWIFT_RUNTIME} -lBlocksRuntime -Wl,-rpath,${RUNLOOP_SWIFT_RUNTIME})
        return()
    endif()
    # A custom target and its file cannot have one name in one folder.
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/blocks)
    set(program ${CMAKE_CURRENT_BINARY_DIR}/blocks/${target})
    set(${variable} ${program} PARENT_SCOPE)
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    add_custom_command(OUTPUT ${program}
        COMMAND ${RUNLOOP_CLANG} -std=gnu99 -fblocks ${rl_test_flags} -I${PROJECT_SOURCE_DIR}/include
            ${arg_SOURCES} -o ${program} $<TARGET_FILE:runloop> ${arg_LIBS} -pthread
            -L${RUNLOOP_SWIFT_RUNTIME} -lBlocksRuntime
            -Wl,-rpath,$<TARGET_FILE_DIR:runloop>:${RUNLOOP_SWIFT_RUNTIME}
        DEPENDS ${arg_SOURCES} ${rl_headers} runloop
        COMMENT "Building ${target} with blocks" VERBATIM COMMAND_EXPAND_LISTS)
    add_custom_target(${target} ALL DEPENDS ${program})
endfunction()

function(rl_add_test)
    cmake_parse_arguments(arg "CHECK;BLOCKS;WILL_FAIL" "NAME;TIMEOUT;PROGRAM" "SOURCES;LABELS;ARGS;LIBS;OPTIONS;PASS" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "rl_add_test does not know ${arg_UNPARSED_ARGUMENTS}.")
    endif()
    foreach(source ${arg_SOURCES})
        file(STRINGS ${source} uses REGEX "#include <check.h>")
        if(uses)
            set(arg_CHECK TRUE)
        endif()
    endforeach()
    if(arg_CHECK AND NOT CHECK_FOUND)
        message(WARNING "Check (Debian package check) is missing: ${arg_NAME} is left out.")
        return()
    endif()
    if(arg_BLOCKS)
        if(NOT RUNLOOP_CLANG OR NOT EXISTS ${RUNLOOP_SWIFT_RUNTIME}/libBlocksRuntime.so)
            message(WARNING "clang or the blocks runtime is missing: ${arg_NAME} is left out.")
            return()
        endif()
        set(check_libs "")
        if(arg_CHECK)
            set(check_libs ${CHECK_LDFLAGS})
        endif()
        rl_add_blocks_program(program ${arg_NAME} SOURCES ${arg_SOURCES} LIBS ${arg_LIBS} ${check_libs})
    else()
        if(arg_CHECK)
            list(APPEND arg_LIBS PkgConfig::CHECK)
        endif()
        rl_add_program(${arg_NAME} SOURCES ${arg_SOURCES} PROGRAM ${arg_PROGRAM} OPTIONS ${arg_OPTIONS}
            LIBS ${arg_LIBS} RunLoop::runloop)
        set(program $<TARGET_FILE:${arg_NAME}>)
    endif()
    # Programs of another machine need what runs them here.
    list(PREPEND program ${CMAKE_CROSSCOMPILING_EMULATOR})
    if(arg_PASS)
        set(program ${PROJECT_SOURCE_DIR}/scripts/expect-output ${arg_PASS} -- ${program})
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${program} ${arg_ARGS})
    set(will_fail "")
    if(arg_WILL_FAIL)
        set(will_fail WILL_FAIL)
    endif()
    rl_test_properties(${arg_NAME} ${will_fail} TIMEOUT "${arg_TIMEOUT}" LABELS ${arg_LABELS})
endfunction()
