#!/bin/sh
# First process of a test host, inside its mount, PID, UTS, IPC and network namespaces: builds the host's own root
# file system and becomes its sshd. $1: name, $2: directory of the host.
#
# A program /etc/first-boot on its disk runs before that; when it fails, so does the boot. With a file "container" in
# the host's directory, the line of shell in it is the first process instead.
#
# The system itself (/usr, /etc) is the testing machine's, copy on write; everything else is the host's own and empty.
set -e
name=$1 home=$2 root=$2/root
mount --make-rprivate /
mount --bind "$root" "$root" # pivot_root wants a mount
for part in usr etc; do
  mkdir -p "$root/$part" "$home/upper/$part" "$home/work/$part"
  mount -t overlay "$part" -o "lowerdir=/$part,upperdir=$home/upper/$part,workdir=$home/work/$part" "$root/$part"
done
for link in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$link" ] && [ ! -e "$root/$link" ]; then ln -s "usr/$link" "$root/$link"; fi
done
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/var/tmp" "$root/var/log" \
  "$root/var/lib" "$root/var/cache" "$root/opt" "$root/srv" "$root/mnt" "$root/.old"
chmod 1777 "$root/tmp" "$root/var/tmp"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,size=64k tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
for node in null zero full random urandom tty fuse; do
  [ -e "/dev/$node" ] || continue
  touch "$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
mount -t devpts -o newinstance,mode=620,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/sshd"
while read -r outside inside; do
  mkdir -p "$root$inside"
  mount --bind -o ro "$outside" "$root$inside"
done <"$home/shared"
hostname "$name"
container=$(cat "$home/container" 2>/dev/null || true)
cd "$root"
pivot_root . .old
umount -l /.old
if [ -x /etc/first-boot ]; then /etc/first-boot; fi
[ -z "$container" ] || exec sh -c "exec $container" </dev/null
exec /usr/sbin/sshd -D -e -f /etc/ssh/sshd_bed </dev/null
