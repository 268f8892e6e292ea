#!/bin/sh
# Usage: exports_test.sh LIBRARY SYMBOLS. Fails when the library exports anything else than the list says, lost something that
# the list promises, needs Protobuf, or can be unloaded.
set -eu
listed=$(sed '/^#/d; s/ .*//' "$2" | LC_ALL=C sort)
exported=$(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | LC_ALL=C sort)
if [ "$listed" != "$exported" ]; then
  both=$(printf '%s\n%s\n' "$listed" "$exported" | LC_ALL=C sort | uniq -d)
  printf '%s\n%s\n' "$listed" "$both" | sort | uniq -u | sed 's/^/promised and gone: /'
  printf '%s\n%s\n' "$exported" "$both" | sort | uniq -u | sed 's/^/exported and not in the list: /'
  exit 1
fi
dynamic=$(readelf -d "$1")
soname=$(printf '%s\n' "$dynamic" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
if [ "$soname" != libscalewatch.so.0 ]; then
  echo "soname is $soname: a new one needs a new list"
  exit 1
fi
if printf '%s\n' "$dynamic" | grep NEEDED | grep -i protobuf; then
  echo "the client must not need Protobuf"
  exit 1
fi
printf '%s\n' "$dynamic" | grep -q 'Flags: .*NODELETE' || { echo "dlclose would unload it under gRPC's threads"; exit 1; }
