#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions of libbsd are really called: the library has undefined symbols that libbsd provides.
# usage: libbsd.sh LIBRARY
set -eu
used=$(nm -D --undefined-only "$1" | awk '{ print $NF }' | grep '@LIBBSD_' | sed 's/@.*//' || true)
echo "from libbsd:" $used
[ -n "$used" ] || exit 1
