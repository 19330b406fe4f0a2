# SPDX-License-Identifier: MIT
# librunloop-cf: CoreFoundation's names over the C interface of librunloop, and librunloop-cf-names, which exports them.
#
# The public headers are the one source of the names: RLCF_(name) binds a name to a symbol of librunloop-cf, RLCF_CONSTANT_(name) a
# constant, and RLCF_AS(name, symbol) to a function of librunloop.

file(GLOB_RECURSE rl_cf_headers CONFIGURE_DEPENDS include/runloop-cf/*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rl_cf_headers})
set(rl_cf_names "")
set(rl_cf_functions "")
set(rl_cf_constants "")
set(rl_cf_types "")
foreach(header ${rl_cf_headers})
    file(READ ${header} text)
    string(REGEX MATCHALL "RLCF_\\([A-Za-z_0-9]+\\)" own "${text}")
    string(REGEX MATCHALL "RLCF_CONSTANT_\\(CF[A-Za-z_0-9]+\\)" constants "${text}")
    string(REGEX MATCHALL "RLCF_AS\\(CF[A-Za-z_0-9]+, RL[A-Za-z_0-9]+\\)" others "${text}")
    foreach(match ${own})
        string(REGEX REPLACE "RLCF_\\((.*)\\)" "\\1" name ${match})
        if(name STREQUAL "name")
            continue()
        endif()
        string(APPEND rl_cf_names "#define ${name} RL${name}\n")
        if(name MATCHES "^CF")
            string(APPEND rl_cf_functions "FUNCTION(${name}, RL${name})\n")
        endif()
    endforeach()
    foreach(match ${constants})
        string(REGEX REPLACE "RLCF_CONSTANT_\\((.*)\\)" "\\1" name ${match})
        string(APPEND rl_cf_names "#define k${name} kRL${name}\n")
        string(APPEND rl_cf_constants "CONSTANT(k${name}, kRL${name})\n")
    endforeach()
    foreach(match ${others})
        string(REGEX REPLACE "RLCF_AS\\((.*), (.*)\\)" "FUNCTION(\\1, \\2)" line ${match})
        string(APPEND rl_cf_functions "${line}\n")
    endforeach()
    string(REGEX MATCHALL "CF[A-Za-z]+Ref;" types "${text}")
    foreach(match ${types})
        string(REPLACE ";" "" match "${match}")
        if(match)
            string(APPEND rl_cf_types "#define ${match} RL${match}\n")
        endif()
    endforeach()
endforeach()
set(rl_cf_generated ${PROJECT_BINARY_DIR}/runloop-cf)
# Swift takes types with CoreFoundation's names for classes, so that they are renamed as well.
file(CONFIGURE OUTPUT ${rl_cf_generated}/RLCFNames.h CONTENT "${rl_cf_names}${rl_cf_types}" @ONLY)
file(CONFIGURE OUTPUT ${rl_cf_generated}/RLCFExports.h CONTENT "${rl_cf_functions}${rl_cf_constants}" @ONLY)

file(GLOB rl_cf_c CONFIGURE_DEPENDS Sources/CRunLoopCF/*.c)
add_library(runloop_cf_c OBJECT ${rl_cf_c})
set_target_properties(runloop_cf_c PROPERTIES C_STANDARD 99 C_EXTENSIONS ON POSITION_INDEPENDENT_CODE ON)
target_include_directories(runloop_cf_c PRIVATE Sources/CRunLoopCF/include Sources/CLinux/include include include/runloop-cf ${rl_cf_generated})
target_compile_options(runloop_cf_c PRIVATE -Wall -Wextra -ffunction-sections -fdata-sections $<$<CONFIG:Release>:-Oz>)

file(GLOB_RECURSE rl_cf_swift CONFIGURE_DEPENDS Sources/RunLoopCF/*.swift)
rl_swift_object(rl_cf_object NAME RunLoopCF MODULE RunLoopCF SOURCES ${rl_cf_swift}
    DEPENDS ${rl_headers} ${rl_cf_headers} Sources/CRunLoopCF/include/CRunLoopCF.h ${rl_cf_generated}/RLCFNames.h
    FLAGS -I ${PROJECT_SOURCE_DIR}/include/runloop-cf -I ${PROJECT_SOURCE_DIR}/Sources/CRunLoopCF/include -I ${rl_cf_generated}
        -Xcc -D_GNU_SOURCE)

add_library(runloop_cf SHARED ${rl_cf_object} $<TARGET_OBJECTS:runloop_cf_c>)
add_library(RunLoop::cf ALIAS runloop_cf)
set_target_properties(runloop_cf PROPERTIES OUTPUT_NAME runloop-cf EXPORT_NAME cf VERSION ${PROJECT_VERSION}
    SOVERSION ${rl_soversion} LINKER_LANGUAGE C LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/runloop-cf.map)
target_include_directories(runloop_cf INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/runloop-cf> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/runloop-cf>)
target_link_libraries(runloop_cf PUBLIC runloop)
target_link_options(runloop_cf PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/runloop-cf.map LINKER:-Bsymbolic
    # What it has made lives on after dlclose, as librunloop does, and calls its functions.
    LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now LINKER:--as-needed)

# The CF names themselves, for dlsym and other languages: jumps to the functions, and copies of the constants.
add_library(runloop_cf_names SHARED Sources/CRunLoopCFNames/names.c)
set_target_properties(runloop_cf_names PROPERTIES OUTPUT_NAME runloop-cf-names EXPORT_NAME cf-names VERSION ${PROJECT_VERSION}
    SOVERSION ${rl_soversion} C_STANDARD 99 C_EXTENSIONS ON C_VISIBILITY_PRESET hidden)
target_include_directories(runloop_cf_names PRIVATE ${rl_cf_generated})
target_link_libraries(runloop_cf_names PRIVATE runloop_cf runloop)
target_link_options(runloop_cf_names PRIVATE LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now)

# Each finds the libraries it needs beside itself: a path of the program is not one for its libraries' own libraries, and what opens the
# library of names may be in another folder altogether.
set_target_properties(runloop_cf runloop_cf_names PROPERTIES INSTALL_RPATH "$ORIGIN")

if(RUNLOOP_CORE STREQUAL "embedded")
    target_link_options(runloop_cf PRIVATE LINKER:--gc-sections LINKER:-z,defs LINKER:-z,noseparate-code)
else()
    target_link_libraries(runloop_cf PRIVATE ${RUNLOOP_SWIFT_RUNTIME}/${RUNLOOP_SWIFT_ARCH}/swiftrt.o
        -L${RUNLOOP_SWIFT_RUNTIME} -lswiftSwiftOnoneSupport -lswift_Concurrency -lswift_StringProcessing -lswiftCore)
    set_target_properties(runloop_cf PROPERTIES BUILD_RPATH ${RUNLOOP_SWIFT_RUNTIME} INSTALL_RPATH "$ORIGIN;${RUNLOOP_SWIFT_RUNTIME}")
endif()
