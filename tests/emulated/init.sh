#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in {modules}; do insmod "/modules/$module.ko" || echo "no module $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro host /host
mount -t tmpfs memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t cgroup2 cgroup /root/sys/fs/cgroup
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/shm /root{results}
mount -t tmpfs memory /root/dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 results /root{results}
hostname emulated
chroot /root /bin/sh -c {command} > /root{results}/output 2>&1 < /dev/null
echo $? > /root{results}/status
reboot -f
