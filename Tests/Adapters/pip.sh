#!/bin/sh
# SPDX-License-Identifier: MIT
# The package for asyncio is installed by pip without a network, and imported from there. Skipped where pip or what it builds with is missing.
# usage: pip.sh PYTHON FOLDER LIBRARY
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# A Python of the user's may have no pip where the system's has one.
python=
for each in "$1" /usr/bin/python3; do
    if "$each" -c 'import setuptools, wheel, pip' 2>/dev/null; then
        python=$each
        break
    fi
done
[ -n "$python" ] || { echo "pip, setuptools or wheel is missing"; exit 77; }
cp -r "$2" source
"$python" -m pip install --quiet --no-build-isolation --no-deps --no-index --disable-pip-version-check --target installed ./source
ls installed
PYTHONPATH=installed RUNLOOP_LIBRARY=$3 "$python" -c '
import runloop_asyncio
assert "/installed/" in runloop_asyncio.__file__, runloop_asyncio.__file__'
