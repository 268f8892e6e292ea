#!/bin/sh
# Usage: package_test.sh BUILD_DIR PROJECT_DIR CXX SANITIZERS
# Installs the client from BUILD_DIR, builds PROJECT_DIR with find_package(Scalewatch) against it, and runs it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for component in client client-dev; do cmake --install "$1" --prefix "$dir/prefix" --component $component >/dev/null; done
flags=""
if [ -n "$4" ]; then flags="-fsanitize=$4"; fi
cmake -S "$2" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_CXX_COMPILER="$3" -DCMAKE_CXX_FLAGS="$flags" >/dev/null
cmake --build "$dir/build"
# No server is there: it trains all the same, and says at the end that nothing took its reports.
SCALEWATCH_SERVER=127.0.0.1:1 "$dir/build/trainer" | grep "step 100"
