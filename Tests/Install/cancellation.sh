#!/bin/sh
# SPDX-License-Identifier: MIT
# S-LOOP-20: the library takes no function from libc that is a cancellation point (pthreads(7)), but for pthread_join and libbsd's
# flopen, around which cancellation is disabled, and fcntl, which is one for F_SETLKW alone.
# usage: cancellation.sh LIBRARY
set -eu
points='accept|accept4|clock_nanosleep|close|closedir|connect|creat|dprintf|epoll_pwait|epoll_pwait2|epoll_wait|fallocate|fdatasync|
fopen|fsync|getrandom|lockf|msync|nanosleep|open|openat|opendir|pause|poll|posix_fallocate|ppoll|pread|preadv|preadv2|pselect|
pthread_cond_timedwait|pthread_cond_wait|pthread_testcancel|pwrite|pwritev|pwritev2|read|readdir|readv|recv|recvfrom|recvmsg|select|
sem_timedwait|sem_wait|send|sendmsg|sendto|sigsuspend|sigtimedwait|sigwait|sigwaitinfo|sleep|splice|system|tcdrain|usleep|wait|wait3|
wait4|waitid|waitpid|write|writev'
points=$(echo "$points" | tr -d '\n')
imports=$(nm -D --undefined-only "$1" | awk '{ sub(/@.*/, "", $2); print $2 }')
found=$(echo "$imports" | grep -xE "($points)(64|64v2)?" || true)
[ -z "$found" ] || { echo "cancellation points:" $found; exit 1; }
case "$imports" in *syscall*) ;; *) echo "syscall is not among the imports: nm was misread"; exit 1 ;; esac
