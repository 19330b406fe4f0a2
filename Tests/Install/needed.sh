#!/bin/sh
# SPDX-License-Identifier: MIT
# The library needs libc and libbsd, libm at most, and so no Swift runtime.
# usage: needed.sh LIBRARY
set -eu
needed=$(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needs:" $needed
for name in $needed; do
    case $name in
    libc.so.* | libm.so.* | libbsd.so.*) ;;
    *) echo "not allowed: $name"; exit 1 ;;
    esac
done
case "$needed" in *libc.so.*) ;; *) echo "libc is not among them: readelf was misread"; exit 1 ;; esac
