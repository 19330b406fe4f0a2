#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages of the programs have every option that the programs tell of, and mandoc and groff have nothing to say against them.
. "$(dirname "$0")/lib.sh"
source=$(dirname "$0")/../../tools
status=0
# page PROGRAM: its page is beside its source.
page() {
    name=${1##*/}
    file=$source/$name.1
    [ -e "$file" ] || file=$source/top/$name.1
    "$1" --help >"$work/help"
    for option in $(grep -o -e '--[a-z][a-z-]*' "$work/help" | sort -u); do
        tr -d '\\' <"$file" | grep -q -e "$option" || { echo "$file: has no $option"; status=1; }
    done
    if command -v mandoc >/dev/null; then mandoc -Tlint -W warning "$file" || status=1; fi
    groff -ww -man -Tutf8 -z "$file" >"$work/groff" 2>&1 || status=1
    [ ! -s "$work/groff" ] || { cat "$work/groff"; status=1; }
}
for program in "$tools/runloop-top" "$tools/runloop-dump" "$source/cf2rl" "$source/runloop-trace"; do page "$program"; done
# They tell the version of the library.
version=$(sed -n 's/^#define RL_VERSION_[A-Z]* //p' "$source/../include/runloop/base.h" | paste -sd .)
for program in runloop-top runloop-dump; do
    [ "$("$tools/$program" --version)" = "$version" ] || { echo "$program: its version is not $version"; status=1; }
done
exit $status
