#!/bin/sh
# jobs.sh COMMAND...: runs a command that is told how many compilers may run side by side: as many as the cores and the
# free memory of this machine allow. What one of them takes, in bytes, is a secret of the build: it is in no layer, and
# another value does not run a step again.
set -eu
memory=0
if [ -s /run/secrets/job-memory ]; then read -r memory < /run/secrets/job-memory || true; fi
if [ "$memory" -gt 0 ]; then
  jobs=$(nproc) free=0
  while read -r name value _; do
    if [ "$name" = MemAvailable: ]; then free=$value; fi
  done < /proc/meminfo
  if [ "$free" -gt 0 ] && [ $((free * 1024 / memory)) -lt "$jobs" ]; then jobs=$((free * 1024 / memory)); fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  MAX_JOBS=${MAX_JOBS:-$jobs} CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}
  CARGO_BUILD_JOBS=${CARGO_BUILD_JOBS:-$jobs}
  export MAX_JOBS CMAKE_BUILD_PARALLEL_LEVEL CARGO_BUILD_JOBS
  echo "up to $MAX_JOBS compilers side by side: $jobs fit $(nproc) cores and $((free / 1024)) MiB of free memory" >&2
fi
exec "$@"
