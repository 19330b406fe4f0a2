#!/bin/sh
# SPDX-License-Identifier: MIT
# S-TRC-12: the library has the probes, all with one semaphore and five arguments.
# usage: probes.sh LIBRARY
set -eu
if ! readelf -n "$1" | grep -q stapsdt; then
    echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || { echo "built without sys/sdt.h"; exit 77; }
    echo "no probes although there is sys/sdt.h"
    exit 1
fi
notes=$(readelf -n "$1" | sed -n '/stapsdt/,$p')
echo "$notes"
for name in run_begin run_end pass sleep_begin sleep_end callout_begin callout_end loop_end post request signal wake_up stop message_send \
    message_receive; do
    echo "$notes" | grep -qx "    Name: $name" || { echo "no probe $name"; exit 1; }
done
[ "$(echo "$notes" | grep -c 'Provider: runloop')" -eq "$(echo "$notes" | grep -c 'Arguments: [^ ]* [^ ]* [^ ]* [^ ]* [^ ]*$')" ]
semaphores=$(echo "$notes" | sed -n 's/.*Semaphore: //p' | sort -u)
[ "$(echo "$semaphores" | wc -l)" -eq 1 ]
# It is in memory that the process may write: the only word of its section.
[ "$semaphores" != 0x0000000000000000 ]
readelf -SW "$1" | grep -q '\.probes  *PROGBITS.* WA '
