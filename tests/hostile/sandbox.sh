#!/bin/sh
# What runs in the new namespaces. Shared memory is no part of the overlay.
set -e
base=$1 cwd=$2 output=$3 kept=$4
shift 4
mount -t tmpfs none "$base/top"
cd "$base/top"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" root
for name in proc sys dev; do mount --rbind "/$name" "root/$name"; done
mount -t tmpfs -o mode=1777 none root/dev/shm
status=0
chroot root /usr/bin/env -C "$cwd" -i "$@" || status=$?
for name in $kept; do [ ! -e "root$cwd/$name" ] || cp -a "root$cwd/$name" "$output"; done
{ cd upper; find . -print0; cd ../root; find dev/shm -print0; } >"$base/written"
exit "$status"
