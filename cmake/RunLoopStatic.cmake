# SPDX-License-Identifier: MIT
# librunloop.a, for programs that are linked statically.
#
# The objects are joined into one, so that a program which calls anything of the library gets all of it, the function in .init_array
# too. In the joined object only what the shared library exports keeps a global name: the Embedded object has functions such as
# swift_retain, which a program with Swift's own runtime defines as well.

if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "librunloop.a needs objcopy; configure with -DRUNLOOP_STATIC=OFF to do without.")
endif()

# What stays global is what the version script names.
file(STRINGS cmake/runloop.map rl_global REGEX "^ +k?RL[*];")
list(TRANSFORM rl_global REPLACE "^ +(.*);" "--keep-global-symbol=\\1")

set(rl_joined ${PROJECT_BINARY_DIR}/runloop-joined.o)
set(rl_static ${PROJECT_BINARY_DIR}/runloop-static.o)
add_custom_command(OUTPUT ${rl_static}
    # A section that the linker takes from one of several objects cannot be left out of this one, whose names are its own.
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${rl_joined} $<TARGET_OBJECTS:runloop_c> ${rl_swift_object}
    # The linker warns about each program that is linked statically and calls dlopen.
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym dlopen=rl_no_dlopen --wildcard ${rl_global} ${rl_joined} ${rl_static}
    COMMAND ${CMAKE_COMMAND} -E rm ${rl_joined}
    DEPENDS $<TARGET_OBJECTS:runloop_c> ${rl_swift_object} cmake/runloop.map
    COMMENT "Joining the objects of librunloop.a" VERBATIM COMMAND_EXPAND_LISTS)
set_source_files_properties(${rl_static} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)

add_library(runloop_static STATIC ${rl_static})
add_library(RunLoop::static ALIAS runloop_static)
set_target_properties(runloop_static PROPERTIES OUTPUT_NAME runloop EXPORT_NAME static LINKER_LANGUAGE C)
target_include_directories(runloop_static INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(runloop_static INTERFACE ${BSD_STATIC_LIBRARIES})
# As librunloop.so: a plug-in that contains it stays loaded, because threads that had a loop end in its code.
target_link_options(runloop_static INTERFACE LINKER:-z,nodelete)
