#!/bin/sh
# SPDX-License-Identifier: MIT
# An installed copy serves programs outside this tree: by pkg-config, by find_package, and after the
# prefix was moved.
# usage: prefix.sh BUILD-FOLDER THIS-FOLDER LIBDIR VERSION BUILD-TYPE
set -eu
build=$1 here=$2 libdir=$3 version=$4 build_type=$5
# Before 1.0 the minor version belongs to the library's name.
case $version in
0.*) soversion=${version%.*} ;;
*) soversion=${version%%.*} ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# What is uninstalled leaves nothing, and a list of another prefix removes nothing.
cp "$build/install_manifest.txt" "$work/list"
cp -a "$work/first" "$work/moved"
touch "$work/first/include/of_others.h"
if "$here/../../scripts/uninstall" "$work/moved" "$work/list" 2>/dev/null; then
    echo "a list of another prefix was taken"
    exit 1
fi
"$here/../../scripts/uninstall" "$work/first" "$work/list"
left=$(cd "$work/first" && find . -type f -o -type l -o -iname '*runloop*')
[ "$left" = ./include/of_others.h ] || { echo "left behind: $left"; exit 1; }
# A prefix that is relative.
(
    mkdir "$work/here"
    cd "$work/here"
    cmake --install "$build" --prefix "./a/../b c" >"$work/install.log"
    cp "$build/install_manifest.txt" "$work/list"
    "$here/../../scripts/uninstall" "./a/../b c" "$work/list"
    left=$(find . -type f -o -type l)
    [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
)
# Files that were put below DESTDIR, also for the prefix /: those of that prefix itself stay.
for prefix in "$work/moved" /; do
    DESTDIR="$work/root" cmake --install "$build" --prefix "$prefix" >"$work/install.log"
    cp "$build/install_manifest.txt" "$work/list"
    DESTDIR="$work/root" "$here/../../scripts/uninstall" "$prefix" "$work/list"
    left=$(find "$work/root" -type f -o -type l)
    [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
done
[ -e "$work/moved/include/runloop/runloop.h" ] || { echo "the files of the prefix itself were removed"; exit 1; }
rm -r "$work/first" "$work/root"
prefix=$work/moved

# Exactly these files, the module map among them and the one for building in place not. The manual has a test of its own.
(cd "$prefix" && find . -path ./share/man -prune -o \( -type f -o -type l \) -print) | sed 's,^\./,,' | sort >"$work/found"
{
    echo bin/cf2rl
    echo bin/runloop-trace
    (cd "$here/../../include" && ls runloop/*.h runloop/adapters/*.h runloop/module.modulemap) | sed 's,^,include/,'
    (cd "$here/../../include" && find runloop-cf -name '*.h') | sed 's,^,include/,'
    for name in runloop-cf runloop-cf-names; do
        for end in so so.$soversion so.$version; do echo "$libdir/lib$name.$end"; done
    done
    for file in pkgconfig/runloop-cf.pc cmake/RunLoop/RunLoopCFTargets.cmake cmake/RunLoop/RunLoopCFTargets-$build_type.cmake; do
        echo "$libdir/$file"
    done
    for file in librunloop.a cmake/RunLoop/RunLoopStaticTargets.cmake cmake/RunLoop/RunLoopStaticTargets-$build_type.cmake; do
        echo "$libdir/$file"
    done
    for file in librunloop.so librunloop.so.$soversion librunloop.so.$version pkgconfig/runloop.pc \
        cmake/RunLoop/RunLoopConfig.cmake cmake/RunLoop/RunLoopConfigVersion.cmake \
        cmake/RunLoop/RunLoopTargets.cmake cmake/RunLoop/RunLoopTargets-$build_type.cmake; do
        echo "$libdir/$file"
    done
} | sort >"$work/wanted"
diff "$work/wanted" "$work/found" || { echo "the installed files are not the expected ones"; exit 1; }
if grep -rIl -e "$build" -e "$work/first" "$prefix"; then
    echo "the files above name the folder they were built in or installed to"
    exit 1
fi

cp "$here/program.c" "$work/"
cd "$work"
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
for flag in $(pkg-config --cflags --libs runloop); do
    case $flag in -I* | -L* | -l*) ;; *) echo "SwiftPM would refuse $flag"; exit 1 ;; esac
done
[ "$(pkg-config --modversion runloop)" = "$version" ]
cc -std=c99 -Wall -Wextra -Werror program.c -o by_pkg_config $(pkg-config --cflags --libs runloop)
LD_LIBRARY_PATH="$prefix/$libdir" ./by_pkg_config "$version"

# The static library has the names of the shared one and no others. A linker's warning would tell of a function that needs the shared
# libc.
nm -g --defined-only "$prefix/$libdir/librunloop.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort >static.names
nm -D --defined-only "$prefix/$libdir/librunloop.so" | awk '{ print $NF }' | sed 's/@.*//' | grep -v '^RUNLOOP_' | sort >shared.names
diff shared.names static.names || { echo "librunloop.a and librunloop.so have different names"; exit 1; }
cp "$here/program_static.c" "$work/"
cc -std=gnu99 -Wall -Wextra -Werror -pthread -static program_static.c -o by_static $(pkg-config --static --cflags --libs runloop) -Wl,--fatal-warnings
if readelf -lW by_static | grep -q INTERP; then echo "the program is not static"; exit 1; fi
./by_static
# The same archive in a program whose other libraries are shared.
cc -std=gnu99 -pthread program_static.c -o half_static $(pkg-config --cflags runloop) "$prefix/$libdir/librunloop.a" $(pkg-config --libs libbsd)
if readelf -dW half_static | grep -q librunloop; then echo "the shared library was taken"; exit 1; fi
./half_static

# CoreFoundation's names: a program of the Mac, unchanged.
[ "$(pkg-config --modversion runloop-cf)" = "$version" ]
cp "$here/program_cf.c" "$work/"
cc -std=c99 -Wall -Wextra -Werror program_cf.c -o cf_by_pkg_config $(pkg-config --cflags --libs runloop-cf)
LD_LIBRARY_PATH="$prefix/$libdir" ./cf_by_pkg_config

mkdir project && cp program.c program_cf.c program_static.c project/
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.16)
project(Client C)
find_package(RunLoop ${version%.*} REQUIRED COMPONENTS cf static)
add_executable(client program.c)
target_link_libraries(client PRIVATE RunLoop::runloop)
add_executable(client_cf program_cf.c)
target_link_libraries(client_cf PRIVATE RunLoop::cf)
add_executable(client_static program_static.c)
target_link_libraries(client_static PRIVATE RunLoop::static -static)
END
cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" >project.log || { cat project.log; exit 1; }
cmake --build project/build >project.log || { cat project.log; exit 1; }
project/build/client "$version"
project/build/client_cf
project/build/client_static
# librunloop-cf and the library of names find what they need beside them, whether or not the program's linker kept librunloop
# for a program that has calls of librunloop-cf alone, and whatever opens the library of names.
cat >only_cf.c <<END
#include <CoreFoundation/CoreFoundation.h>
int main(void) { return CFRunLoopRunInMode(CFSTR("empty"), 0, 0) == kCFRunLoopRunFinished ? 0 : 1; }
END
cc only_cf.c -o only_cf -Wl,--as-needed $(pkg-config --cflags --libs runloop-cf) -Wl,-rpath,"$prefix/$libdir"
./only_cf
cc "$here/../CF/names.c" -o names -ldl
./names "$prefix/$libdir/librunloop-cf-names.so"
# Meson finds it by pkg-config.
if command -v meson >/dev/null; then
    cat >project/meson.build <<END
project('client', 'c', default_options: ['c_std=c99', 'werror=true', 'warning_level=2'])
executable('client', 'program.c', dependencies: dependency('runloop', version: '>=${version%.*}'))
executable('client_cf', 'program_cf.c', dependencies: dependency('runloop-cf'))
executable('client_static', 'program_static.c', link_args: '-static', override_options: ['c_std=gnu99'],
    dependencies: [dependency('runloop', static: true), dependency('threads')])
END
    meson setup project/meson project >project.log 2>&1 && ninja -C project/meson >>project.log 2>&1 || { cat project.log; exit 1; }
    LD_LIBRARY_PATH="$prefix/$libdir" project/meson/client "$version"
    LD_LIBRARY_PATH="$prefix/$libdir" project/meson/client_cf
    project/meson/client_static
else
    echo "meson is missing"
fi
# A program that asks for another minor version is told so.
sed -i "s/RunLoop ${version%.*} REQUIRED/RunLoop 99.0 REQUIRED/" project/CMakeLists.txt
if cmake -S project -B project/other -DCMAKE_PREFIX_PATH="$prefix" >project.log 2>&1; then
    echo "version 99.0 was found"
    exit 1
fi
echo "installed, moved, built and ran by pkg-config and by find_package"
