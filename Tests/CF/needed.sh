#!/bin/sh
# SPDX-License-Identifier: MIT
# librunloop-cf needs nothing beyond librunloop and the C library.
# usage: needed.sh LIBRARY
set -eu
needed=$(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needs:" $needed
for name in $needed; do
    case $name in
    libc.so.* | libm.so.* | librunloop.so.* | ld-linux*) ;;
    *) echo "not allowed: $name"; exit 1 ;;
    esac
done
case "$needed" in *librunloop.so.*) ;; *) echo "librunloop is not among them: readelf was misread"; exit 1 ;; esac
