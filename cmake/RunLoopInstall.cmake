# SPDX-License-Identifier: MIT
# What `cmake --install` puts where: the library, its headers, a pkg-config file and a CMake package.

include(CMakePackageConfigHelpers)

install(TARGETS runloop EXPORT RunLoopTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# include/module.modulemap is for building the package in place; the installed module map is the one
# beside the headers.
install(DIRECTORY include/runloop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "module.modulemap")

# cf2rl changes programs for CoreFoundation into programs for the library, runloop-trace makes pictures of traces.
install(PROGRAMS tools/cf2rl tools/runloop-trace DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES tools/cf2rl.1 tools/runloop-trace.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# Programs that show loops of other processes. The Swift package manager fetches what they are built with.
option(RUNLOOP_TOOLS "Build and install runloop-top and runloop-dump" OFF)
if(RUNLOOP_TOOLS)
    set(rl_tools ${PROJECT_BINARY_DIR}/tools)
    add_custom_target(tools ALL COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/tools ${rl_tools}
        COMMENT "Building runloop-top and runloop-dump" VERBATIM)
    install(PROGRAMS ${rl_tools}/release/runloop-top DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES ${rl_tools}/release/runloop-dump DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES tools/top/runloop-top.1 tools/top/runloop-dump.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The manual pages are made from the headers. SOURCE_DATE_EPOCH, if it is set, is their date.
string(TIMESTAMP RUNLOOP_DATE "%B %d, %Y" UTC)
find_program(RUNLOOP_PYTHON python3 DOC "Makes the manual pages; without it there are none")
if(RUNLOOP_PYTHON)
    file(GLOB rl_manual_headers CONFIGURE_DEPENDS include/runloop/*.h)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man/man7/runloop.7
        COMMAND ${RUNLOOP_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/man ${PROJECT_SOURCE_DIR}/include/runloop
            ${PROJECT_BINARY_DIR}/man ${PROJECT_VERSION} ${RUNLOOP_DATE}
        DEPENDS ${rl_manual_headers} scripts/man scripts/headers.py COMMENT "Writing the manual pages" VERBATIM)
    add_custom_target(man ALL DEPENDS ${PROJECT_BINARY_DIR}/man/man7/runloop.7)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()

# The prefix is found from the file's own place, so that an installed tree can be moved.
file(RELATIVE_PATH RUNLOOP_PC_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(pkgconfig/runloop.pc.in ${PROJECT_BINARY_DIR}/runloop.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/runloop.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/RunLoop)
install(EXPORT RunLoopTargets NAMESPACE RunLoop:: DESTINATION ${package})
# The component static: librunloop.a.
if(RUNLOOP_STATIC)
    install(TARGETS runloop_static EXPORT RunLoopStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT RunLoopStaticTargets NAMESPACE RunLoop:: DESTINATION ${package})
endif()
# The component cf: CoreFoundation's names.
if(RUNLOOP_CF)
    install(TARGETS runloop_cf runloop_cf_names EXPORT RunLoopCFTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(DIRECTORY include/runloop-cf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
    configure_file(pkgconfig/runloop-cf.pc.in ${PROJECT_BINARY_DIR}/runloop-cf.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/runloop-cf.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(EXPORT RunLoopCFTargets NAMESPACE RunLoop:: DESTINATION ${package})
endif()
configure_package_config_file(cmake/RunLoopConfig.cmake.in ${PROJECT_BINARY_DIR}/RunLoopConfig.cmake
    INSTALL_DESTINATION ${package})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RunLoopConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/RunLoopConfig.cmake ${PROJECT_BINARY_DIR}/RunLoopConfigVersion.cmake
    DESTINATION ${package})
