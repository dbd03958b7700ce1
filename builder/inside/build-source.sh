#!/bin/sh
# build-source.sh EPOCH COMMAND...: runs the commands of a component in a copy of its source at /mnt; they fill /out.
set -eu
epoch=$1
shift
mkdir -p /out
cp -R --preserve=mode /mnt /build
cd /build
for command in "$@"; do
  echo "+ $command" >&2
  sh "${0%/*}/jobs.sh" sh -euc "$command"
done
if [ -z "$(find /out ! -type d -print -quit)" ]; then
  echo "the commands of this component made no file below /out" >&2
  exit 1
fi
find /out -exec touch --no-dereference --date="@$epoch" {} +
