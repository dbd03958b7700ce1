#!/bin/sh
# make-user.sh EPOCH NAME UID HOME WORKDIR [WRITABLE...]: the user the image runs as, and the folders it may write to.
set -eu
epoch=$1 name=$2 uid=$3 home=$4 workdir=$5
shift 5
taken=$(grep -E "^[^:]*:[^:]*:$uid:" /etc/passwd | cut -d: -f1 || true)
if [ -n "$taken" ]; then
  echo "image.uid: the base already has a user $taken with uid $uid; choose another" >&2
  exit 1
fi
echo "$name:x:$uid:$uid::$home:/usr/sbin/nologin" >> /etc/passwd
echo "$name:x:$uid:" >> /etc/group
echo "$name:*:1::::::" >> /etc/shadow
mkdir -p "$workdir"
for folder in "$home" "$@"; do
  # A folder everybody may write to already, /tmp for one, keeps its owner and its sticky bit.
  if [ -d "$folder" ] && [ -n "$(find "$folder" -prune -perm -1002)" ]; then continue; fi
  mkdir -p "$folder"
  chown "$uid:$uid" "$folder"
done
. "${0%/*}/settle.sh"
settle / "$epoch"
