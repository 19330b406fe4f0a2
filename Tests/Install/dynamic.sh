#!/bin/sh
# SPDX-License-Identifier: MIT
# The dynamic section: the library's name, -Bsymbolic (it never calls another core's functions), nodelete
# (a thread key's destructor outlives dlclose), full relro, no text relocations, no executable stack.
# usage: dynamic.sh LIBRARY VERSION
set -eu
dynamic=$(readelf -dW "$1")
status=0
expect() {
    printf '%s\n' "$dynamic" | grep -Eq "$1" || { echo "missing: $2"; status=1; }
}
# Before 1.0 the minor version belongs to the name.
case $2 in
0.*) soversion=${2%.*} ;;
*) soversion=${2%%.*} ;;
esac
expect "SONAME.*\[librunloop\.so\.$soversion\]" "SONAME librunloop.so.$soversion"
expect 'FLAGS\).*SYMBOLIC' '-Bsymbolic'
expect 'FLAGS\).*BIND_NOW' '-z now'
expect 'FLAGS_1\).*NODELETE' '-z nodelete'
readelf -lW "$1" | grep -q GNU_RELRO || { echo "missing: -z relro"; status=1; }
if printf '%s\n' "$dynamic" | grep -q TEXTREL; then echo "text relocations"; status=1; fi
if readelf -lW "$1" | grep GNU_STACK | grep -q 'RWE'; then echo "executable stack"; status=1; fi
case $(basename "$(readlink -f "$1")") in
librunloop.so."$2") ;;
*) echo "the file is not librunloop.so.$2"; status=1 ;;
esac
exit $status
