#!/bin/sh
# SPDX-License-Identifier: MIT
# Nothing in the library makes a closure on the heap, or an object: swift_allocObject is called nowhere. Such memory would be made for
# each call, and lost by a callback that ends its thread.
# usage: closures.sh LIBRARY
set -eu
calls=$(objdump -d --no-show-raw-insn "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ { name = $2 }
    /(call|jmp|bl|b) .*<swift_allocObject>/ { print name }' | sort -u)
[ -z "$calls" ] || { echo "they allocate: $calls"; exit 1; }
