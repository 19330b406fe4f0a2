#!/bin/sh
# SPDX-License-Identifier: MIT
# S-DBG-3, in C++.
# usage: exceptions.sh LIBRARY INCLUDE-FOLDER C++-COMPILER SOURCE
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$3" -std=c++17 -O1 -Wall -Wextra -rdynamic -I"$2" "$4" "$1" -o "$work/program" -pthread
LD_LIBRARY_PATH=$(dirname "$1") "$work/program"
