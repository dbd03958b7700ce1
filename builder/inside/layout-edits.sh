#!/bin/sh
# layout-edits.sh EPOCH COMPONENT...: as layout.sh, for an image that edits files of its base. The edited files, mounted
# at /mnt/edits, are the only ones that may replace a file of the runtime stage, and no component writes one of them.
set -eu
(cd /mnt/edits && find . ! -type d | sort) > /tmp/edited
first=yes doubled=no
for component in "$@"; do
  if [ "$first" = yes ]; then first=no; continue; fi  # the first word is the epoch
  for file in $(cd "/mnt/$component" && find . ! -type d | sort | comm -12 - /tmp/edited | tr ' ' '?'); do
    echo "an edit of the base and component $component write the same file: ${file#.}" >&2
    doubled=yes
  done
done
[ "$doubled" = no ] || exit 1
exec sh "${0%/*}/layout.sh" "$@"
