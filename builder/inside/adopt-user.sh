#!/bin/sh
# adopt-user.sh EPOCH NAME UID HOME WORKDIR [WRITABLE...]: as make-user.sh, on an image that may have the user already.
set -eu
epoch=$1 name=$2 uid=$3 home=$4 workdir=$5
if ! grep -qE "^$name:[^:]*:$uid:$uid:" /etc/passwd; then
  exec sh "${0%/*}/make-user.sh" "$@"
fi
shift 5
mkdir -p "$workdir"
for folder in "$home" "$@"; do
  if [ -d "$folder" ] && [ -n "$(find "$folder" -prune -perm -1002)" ]; then continue; fi
  mkdir -p "$folder"
  chown "$uid:$uid" "$folder"
done
. "${0%/*}/settle.sh"
settle / "$epoch"
