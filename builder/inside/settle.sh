# Sourced by the other steps. settle FOLDER EPOCH: gives what this step made or changed the lock's time stamp.
# What the step did not touch is older than EPOCH and stays as it is; mounts of the build are left alone.
# shellcheck shell=sh
settle() {
  find "$1" -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /mnt -o -path /media -o -path /etc/resolv.conf \
    -o -path /etc/hosts -o -path /etc/hostname \) -prune -o -newermt "@$2" -exec touch --no-dereference --no-create \
    --date="@$2" {} +
}
