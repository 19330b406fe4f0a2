#!/bin/sh
# The package for asyncio is installed by pip without a network, and imported from there. Skipped where pip or what it builds with is missing.
# usage: pip.sh PYTHON FOLDER LIBRARY
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$1" -c 'import setuptools, wheel, pip' 2>/dev/null || { echo "pip, setuptools or wheel is missing"; exit 77; }
cp -r "$2" source
"$1" -m pip install --quiet --no-build-isolation --no-deps --no-index --disable-pip-version-check --target installed ./source
ls installed
PYTHONPATH=installed RUNLOOP_LIBRARY=$3 "$1" -c '
import runloop_asyncio
assert "/installed/" in runloop_asyncio.__file__, runloop_asyncio.__file__'
