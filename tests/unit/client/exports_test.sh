#!/bin/sh
# Usage: exports_test.sh LIBRARY. Fails when it exports anything but scalewatch_* or needs Protobuf.
set -eu
symbols=$(nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//')
others=$(printf '%s\n' "$symbols" | grep -v -e '^scalewatch_' -e '^SCALEWATCH_0$' || true)
if [ -n "$others" ]; then
  echo "exported beside the ABI: $others"
  exit 1
fi
printf '%s\n' "$symbols" | grep -qx scalewatch_open || { echo "scalewatch_open is not exported"; exit 1; }
if readelf -d "$1" | grep NEEDED | grep -i protobuf; then
  echo "the client must not need Protobuf"
  exit 1
fi
