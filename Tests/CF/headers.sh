#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone and silently, as C99 and C++17, with gcc and clang, with blocks and without.
# usage: headers.sh INCLUDE-FOLDER GCC G++ CLANG CLANG++ (an empty name leaves a compiler out)
set -eu
include=$1
for header in $(cd "$include" && find . -name '*.h' | sed 's,^\./,,' | sort); do
    program="#include <$header>
#include <$header>
extern int nothing;"
    check() {
        compiler=$1
        shift
        [ -n "$compiler" ] || return 0
        printf '%s\n' "$program" | "$compiler" "$@" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" - ||
            { echo "$header: $compiler $*"; exit 1; }
    }
    check "$2" -x c -std=c99
    check "$3" -x c++ -std=c++17
    check "$4" -x c -std=c99 -fblocks
    check "$5" -x c++ -std=c++17 -fblocks
    echo "$header"
done
