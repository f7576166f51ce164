#!/bin/busybox sh
# The first process of a guest: mounts what programs expect, starts the checks, switches the machine off.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up

for word in $(cat /proc/cmdline); do
  case $word in
    guest=*) boot=${word#guest=} ;;
    guest.shell) shell=yes ;;
  esac
done

if [ -n "$shell" ]; then
  echo "a shell in the guest $boot: numa draws it, inside $boot runs its checks, poweroff -f leaves"
  setsid cttyhack sh
else
  /bin/inside "$boot"
  echo "guest: exit $?"
fi
poweroff -f
