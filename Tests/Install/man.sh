#!/bin/sh
# SPDX-License-Identifier: MIT
# Every function, type and constant of the headers has a manual page; mandoc and groff have nothing to say against any.
# usage: man.sh FOLDER LIBRARY     the pages, and the library whose exports need one
set -eu
status=0
for name in $(nm -D --defined-only "$2" | awk '{ print $NF }' | sed 's/@.*//' | grep -E '^k?RL[A-Z]' | grep -v -e '_$' -e '^RLCallOut'); do
    [ -s "$1/man3/$name.3" ] || { echo "no page: $name"; status=1; }
done
[ -s "$1/man7/runloop.7" ] || { echo "no page: runloop"; status=1; }
pages=$(find "$1" -type f)
if command -v mandoc >/dev/null 2>&1; then
    # Style: of references it knows only pages that are installed.
    # shellcheck disable=SC2086
    mandoc -Tlint -W warning $pages || status=1
fi
for page in $pages; do
    # Wide enough for the longest name of a function with its first parameter.
    groff -ww -mdoc -Tutf8 -rLL=100n -z "$page" || status=1
done 2>&1 | tee groff.out
[ ! -s groff.out ] || status=1
rm -f groff.out
echo "$(echo "$pages" | wc -l) pages"
exit $status
