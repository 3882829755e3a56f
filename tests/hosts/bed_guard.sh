#!/bin/sh
# Removes a bed when its test closes this program's standard input, which the test's end does, too.
# $1: what the names of its network namespaces begin with, $2: its directory.
cat >/dev/null
spaces=$(ip netns list | sed 's/ .*//' | grep "^$1-")
tries=0
while [ $tries -lt 100 ]; do
  left=
  for space in $spaces; do
    for pid in $(ip netns pids "$space"); do
      kill -9 "$pid" 2>/dev/null && left=yes
    done
  done
  [ "$left" ] || break
  tries=$((tries + 1))
  sleep 0.05
done
for space in $spaces; do ip netns del "$space"; done
rm -rf -- "$2"
