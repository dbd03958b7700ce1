#!/bin/sh
# install-debs.sh EPOCH: installs the locked packages mounted at /mnt and leaves nothing that differs between two runs.
# Everything they need is among them or in the base, so apt needs no archive; it only brings them into order.
set -eu
epoch=$1
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io install --yes --no-install-recommends /mnt/*.deb
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old
rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/log/bootstrap.log /var/log/fontconfig.log
rm -rf /var/cache/fontconfig/*  # holds the times at which the folders of fonts were made
# The file that another run would write at another time: systemd's and dbus' machine id is made when a machine starts.
rm -f /var/lib/dbus/machine-id
. "${0%/*}/settle.sh"
settle / "$epoch"
