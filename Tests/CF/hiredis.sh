#!/bin/sh
# SPDX-License-Identifier: MIT
# hiredis's adapter for CoreFoundation, as the package brings it, with its own example and with a stress, against a real server.
# usage: hiredis.sh C-COMPILER INCLUDE-FOLDER LIBRARY-FOLDER THIS-FOLDER [FLAGS...]
set -eu
cc=$1 include=$2 libraries=$3 here=$4
shift 4
example=/usr/share/doc/libhiredis-dev/examples/example-macosx.c
if [ ! -e /usr/include/hiredis/adapters/macosx.h ] || ! command -v redis-server >/dev/null; then
    echo "libhiredis-dev or redis-server is missing"
    exit 77
fi
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
links="-L$libraries -lrunloop-cf -lrunloop -lhiredis -Wl,-rpath,$libraries"
"$cc" "$@" -g "$here/hiredis_stress.c" -I"$include" -o stress $links
if [ -e "$example" ]; then
    "$cc" "$@" -g "$example" "$here/hiredis_port.c" -I/usr/include/hiredis -I"$include" -o example -Wl,--wrap=redisAsyncConnect $links
fi

port=$((20000 + $$ % 20000))
for try in 1 2 3 4 5; do
    redis-server --port $port --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >server.log 2>&1 &
    server=$!
    until redis-cli -p $port ping >/dev/null 2>&1; do
        kill -0 $server 2>/dev/null || { server=; break; }
        sleep 0.05
    done
    [ -z "$server" ] || break
    port=$((port + 97))
done
[ -n "$server" ] || { cat server.log; exit 1; }

if [ -e example ]; then
    REDIS_PORT=$port timeout 60 ./example "some words" >out || { cat out; exit 1; }
    cat out
    printf 'Connected...\nargv[end-1]: some words\nDisconnected...\n' | diff - out
else
    # Debian's containers leave documents out.
    echo "the example is not installed"
fi
timeout 120 ./stress $port
