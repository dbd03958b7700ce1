#!/bin/sh
# layout.sh EPOCH COMPONENT...: two components that write the same file, or one that replaces a file of the runtime
# stage, are an error. The components are mounted below /mnt, the runtime stage at /media, the image's own files at
# /opt. Lays those out with a list of who owns how much.
set -eu
epoch=$1
shift
mkdir -p /out/usr/share/rocm-images /tmp/lists
cp /opt/* /out/usr/share/rocm-images/
for component in "$@"; do
  (cd "/mnt/$component" && find . ! -type d | sort) > "/tmp/lists/$component"
done
doubled=no
find /tmp/lists -type f -exec cat {} + | sort | uniq -d > /tmp/doubled
while IFS= read -r file; do
  owners=$(cd /tmp/lists && grep -lxF "$file" -- *)
  # Where no component has it, the smoke tests name both distributions, and a recipe may accept that.
  echo "$owners" | grep -qvE '^dependencies(\.|$)' || continue
  echo "two components write ${file#.}: $(echo "$owners" | tr '\n' ' ')" >&2
  doubled=yes
done < /tmp/doubled
replaced=0
for component in "$@"; do
  while read -r file; do
    if [ -e "/media/$file" ] || [ -L "/media/$file" ]; then
      echo "component $component would replace ${file#.} of the runtime stage" >&2
      replaced=1
    fi
  done < "/tmp/lists/$component"
done
[ "$doubled" = no ] && [ "$replaced" = 0 ] || exit 1
{
  echo "{"
  last=
  for component in "$@"; do
    [ -z "$last" ] || echo "$last,"
    bytes=$(du --summarize --bytes "/mnt/$component" | cut -f1)
    last="  \"$component\": {\"files\": $(wc -l < "/tmp/lists/$component"), \"bytes\": $bytes}"
  done
  [ -z "$last" ] || echo "$last"
  echo "}"
} > /out/usr/share/rocm-images/components.json
find /out -exec touch --no-dereference --date="@$epoch" {} +
