#!/bin/sh
# SPDX-License-Identifier: MIT
# scripts/clients-due: the large clients run when something that they are made of has changed or a variable asks for them, and not for
# other changes or where it cannot be known what has changed.
# usage: clients_due.sh SOURCE-FOLDER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset RUNLOOP_CLIENTS RUNLOOP_BASE
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test
git clone --quiet "$1" "$work/full" 2>/dev/null || { echo "no git repository"; exit 77; }
cd "$work/full"
cp "$1/scripts/clients-due" scripts
commit() {
    echo >>"$1"
    git add --all
    git commit --quiet --message "$1"
}
due() { "$@" >"$work/said" || { cat "$work/said"; echo "not due: $*"; exit 1; }; }
left_out() {
    if "$@" >"$work/said"; then cat "$work/said"; echo "due: $*"; exit 1; fi
    grep -q '^clients: ' "$work/said"
}

commit README.md
left_out scripts/clients-due
commit include/runloop/adapters/hiredis.h
due scripts/clients-due
grep -qx include/runloop/adapters/hiredis.h "$work/said"
commit README.md
left_out scripts/clients-due
# Since a commit that is named.
due env RUNLOOP_BASE=HEAD~2 scripts/clients-due
left_out env RUNLOOP_BASE=HEAD~1 scripts/clients-due
due env RUNLOOP_CLIENTS=1 scripts/clients-due
left_out env RUNLOOP_BASE=HEAD~2 RUNLOOP_CLIENTS=0 scripts/clients-due

# A clone without history asks for the commit before; where there is nothing to ask, it says what is not known.
commit Integrations/Package.swift
git clone --quiet --depth 1 "file://$work/full" "$work/shallow"
cd "$work/shallow"
due scripts/clients-due
git clone --quiet --depth 1 "file://$work/full" "$work/alone"
cd "$work/alone"
git remote remove origin
left_out scripts/clients-due
grep -q 'is not known' "$work/said"
due env RUNLOOP_CLIENTS=1 scripts/clients-due

# A list that names what is not there any more is found.
rm -r Integrations
due scripts/clients-due
grep -q 'Integrations is gone' "$work/said"
