#!/bin/sh
# jobs.sh COMMAND...: runs a command that is told how many compilers may run side by side: as many as the cores and the
# free memory of this machine allow. What one of them takes, in bytes, is a secret of the build: it is in no layer, and
# another value does not run a step again. Where /ccache is mounted, compilers are found through ccache, which keeps
# there what they made; then the last line says how often it knew the answer.
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
if [ ! -d /ccache ]; then exec "$@"; fi
if ! known=$(command -v ccache); then
  echo "ccache: this stage has none, so everything is compiled" >&2
  exec "$@"
fi
folder=$(mktemp -d)
for compiler in cc c++ gcc g++ clang clang++ hipcc; do
  if command -v "$compiler" > /dev/null; then ln -s "$known" "$folder/$compiler"; fi
done
# torch looks for hipcc below ROCM_HOME, not on the path, unless it is told.
if [ -e "$folder/hipcc" ]; then PYTORCH_NVCC=${PYTORCH_NVCC:-$folder/hipcc} && export PYTORCH_NVCC; fi
status=0
PATH=$folder:$PATH CCACHE_DIR=/ccache CCACHE_COMPILERCHECK=content CCACHE_STATSLOG=$folder/log "$@" || status=$?
if [ -e "$folder/log" ]; then
  # One word a line: what became of each compile. Those it cannot cache, links for one, are neither hit nor miss.
  awk '/^(direct|preprocessed)_cache_hit$/ { hits++ } /^cache_miss$/ { misses++ }
    END { if (hits + misses) printf "ccache: %d of %d compiles were known\n", hits, hits + misses }' "$folder/log" >&2
fi
rm -rf "$folder"
exit "$status"
