#!/usr/bin/env bash
# Boot emulated machines with sockets, NUMA nodes and several L3s, and run their tests.
#
#   bash tests/emulated/run.sh PYTHON [PYTEST OPTIONS]
#
# What is missing is installed where this user may, and named where not.
set -euo pipefail
python=$1
shift
packages=(qemu-system-x86 linux-image-amd64 busybox-static libnuma1)
present() {
  command -v qemu-system-x86_64 && command -v busybox && ls /boot/vmlinuz-*-amd64
}
if ! present > /dev/null 2>&1; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "emulated machines need ${packages[*]}: as root, apt install ${packages[*]}" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${packages[@]}" > /dev/null
fi
exec "$python" -m pytest -m emulated "$(dirname "$0")" "$@"
