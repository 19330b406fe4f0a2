#!/bin/sh
# SPDX-License-Identifier: MIT
# Every function and constant that the headers declare is exported, and every export is declared, but for the frames of
# call-outs, which only have to have names (S-DBG-2).
# usage: headers_and_exports.sh LIBRARY INCLUDE-FOLDER C-COMPILER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# After the preprocessor a declaration that RL_EXPORT marks starts with its visibility attribute. The
# name of a function is the first RL name before a parenthesis; a constant is the last kRL name.
printf '#include <runloop/%s>\n' $(cd "$2/runloop" && ls ./*.h) >"$work/all.c"
"$3" -std=gnu99 -E -P -I"$2" "$work/all.c" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
    sed -n -e 's/^.*visibility("default")))[^(]*[ *]\(RL[A-Za-z0-9]*_\{0,1\}\) *(.*$/\1/p' -e t \
        -e 's/^.*visibility("default"))).*[ *]\(kRL[A-Za-z0-9]*\) *$/\1/p' -e t \
        -e 's/^/cannot read the declaration: /p' | sort -u >"$work/declared"
nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' | grep -v -e '^RUNLOOP_' -e '^RLCallOut' | sort -u >"$work/exported"

status=0
if ! comm -23 "$work/declared" "$work/exported" | sed 's/^/declared, not exported: /' | { ! grep .; }; then
    status=1
fi
if ! comm -13 "$work/declared" "$work/exported" | sed 's/^/exported, not declared: /' | { ! grep .; }; then
    status=1
fi
grep -q '^RLRunInMode$' "$work/declared" || { echo "RLRunInMode was not found in the headers"; status=1; }
echo "$(wc -l <"$work/declared") declared, $(wc -l <"$work/exported") exported"
exit $status
