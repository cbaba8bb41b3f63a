#!/usr/bin/env bash
# A throw-away Debian VM with a real kernel (device-mapper, NUMA, systemd) for end-to-end tests.
#   vm.sh deps | build | start | run CMD... | copy SRC DST | fetch SRC DST | reboot | stop | status | log
#   vm.sh cut | boot        kill it as a power loss does; start it again with the disks that it had
#   vm.sh forward LOCAL REMOTE   a Unix socket of the guest, here
# No initrd: Debian's cloud kernel has NVMe and ext4 built in. sshd is reached over QEMU's
# user network on one 127.0.0.1 port; the guest itself has no way out (restrict=on).
set -euo pipefail
umask 077

VM_SUITE=${VM_SUITE:-bookworm}
VM_MIRROR=${VM_MIRROR:-}                                       # default: where this machine's apt gets the suite
VM_KERNEL=${VM_KERNEL:-linux-image-cloud-amd64}
VM_PACKAGES=${VM_PACKAGES:-systemd-sysv udev kmod procps dbus xfsprogs e2fsprogs openssh-server bubblewrap iproute2
  python3-minimal libarchive13 libcurl4 libsodium23 libsqlite3-0 libssl3 libstdc++6 libyaml-cpp0.7 libfmt9}
VM_CACHE=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bole-vm}       # built images, kept
VM_RUN=${VM_RUN:-$VM_CACHE/run}                                 # one VM's state, removed by stop
VM_ACCEL=${VM_ACCEL:-tcg}                                       # tcg | kvm
VM_SMP=${VM_SMP:-2}
VM_MEM=${VM_MEM:-1024}                                          # MiB, split over two NUMA nodes
VM_DATA_MB=${VM_DATA_MB:-2048}                                  # size of each empty data disk (sparse)
VM_WRITE_LOG=${VM_WRITE_LOG:-}                                   # 1: all writes and flushes of data1 go to data1.log too
VM_FREEZE_ROOT=${VM_FREEZE_ROOT:-}                              # 1: what a boot writes to the root disk is forgotten
VM_APPEND=${VM_APPEND:-}                                        # further kernel arguments
VM_TIMEOUT=${VM_TIMEOUT:-120}                                   # seconds to wait for a boot
VM_RUN_TIMEOUT=${VM_RUN_TIMEOUT:-120}                           # seconds for one run or copy

MARK='@@vm-ready'
LOG=$VM_RUN/console.log
CM=/tmp/.vm-$(printf %s "$VM_RUN" | sha256sum | head -c 12)     # short: a socket path has 108 bytes

die() { echo "vm.sh: $*" >&2; exit 125; }
need() { local c; for c; do command -v "$c" >/dev/null || die "no $c: run 'vm.sh deps'"; done; }

# an image is good for one suite, kernel, package list and set of build functions
key() { { printf '%s\n' "$VM_SUITE" "$VM_KERNEL" "$VM_PACKAGES"; declare -f make_ssdt make_root build; } | sha256sum | head -c 16; }

deps() {
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
    qemu-system-x86 qemu-utils mmdebstrap e2fsprogs openssh-client acpica-tools
}

# Each CPU gets ACPI P-states on a dead I/O port, so that acpi-cpufreq binds and governors are real.
make_ssdt() {
  local i
  {
    echo 'DefinitionBlock ("", "SSDT", 2, "VMTEST", "CPUFREQ", 1) {'
    for ((i = 0; i < 8; i++)); do
      cat <<ASL
External (\\_SB.CPUS.C00$i, DeviceObj)
If (CondRefOf (\\_SB.CPUS.C00$i)) { Scope (\\_SB.CPUS.C00$i) {
  Name (_PCT, Package () {
    ResourceTemplate () { Register (SystemIO, 8, 0, 0x0700) },
    ResourceTemplate () { Register (SystemIO, 8, 0, 0x0701) } })
  Name (_PSS, Package () {
    Package () { 2000, 20000, 10, 10, 0xFF, 0xFF },
    Package () { 1000, 10000, 10, 10, 0x01, 0x01 } })
  Method (_PPC) { Return (0) }
} }
ASL
    done
    echo '}'
  } >"$1.asl"
  iasl -p "$1" "$1.asl" >"$1.log" 2>&1 || { cat "$1.log" >&2; return 1; }
}

make_root() {  # DIR: settings inside the new root
  local r=$1 u
  echo vm >"$r/etc/hostname"
  echo '127.0.0.1 localhost vm' >"$r/etc/hosts"
  echo '/dev/nvme0n1 / ext4 defaults,noatime 0 0' >"$r/etc/fstab"
  printf 'acpi-cpufreq\n' >"$r/etc/modules-load.d/vm.conf"
  printf '[Match]\nDriver=virtio_net\n[Network]\nAddress=10.0.2.15/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
    >"$r/etc/systemd/network/10-vm.network"
  printf 'PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM yes\nUseDNS no\nHostKey /etc/ssh/ssh_host_ed25519_key\nMaxSessions 50\n' \
    >"$r/etc/ssh/sshd_config.d/vm.conf"
  rm -f "$r"/etc/ssh/ssh_host_*
  ssh-keygen -q -t ed25519 -N '' -C vm-host -f "$r/etc/ssh/ssh_host_ed25519_key"
  install -d -m 700 "$r/root/.ssh"
  install -m 600 "$2.pub" "$r/root/.ssh/authorized_keys"
  printf '* %s\n' "$(awk '{print $1, $2}' "$r/etc/ssh/ssh_host_ed25519_key.pub")" >"$3"
  # says on the console that sshd is up
  cat >"$r/etc/systemd/system/vm-ready.service" <<UNIT
[Unit]
After=ssh.service
[Service]
Type=oneshot
StandardOutput=tty
TTYPath=/dev/ttyS0
ExecStart=/bin/echo $MARK
[Install]
WantedBy=multi-user.target
UNIT
  for u in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
           e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service \
           systemd-timesyncd.service systemd-resolved.service systemd-firstboot.service \
           sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount systemd-pstore.service \
           modprobe@efi_pstore.service modprobe@drm.service modprobe@fuse.service modprobe@configfs.service; do
    ln -sfn /dev/null "$r/etc/systemd/system/$u"
  done
  chroot "$r" systemctl -q enable ssh.service systemd-networkd.service vm-ready.service
  chroot "$r" systemctl -q set-default multi-user.target
  systemd-machine-id-setup --root="$r" >/dev/null 2>&1 || tr -d - </proc/sys/kernel/random/uuid >"$r/etc/machine-id"
  rm -rf "$r"/var/cache/apt/* "$r"/var/lib/apt/lists/* "$r"/usr/share/{doc,man,locale,info,zoneinfo}/*
}

build() {
  need mmdebstrap mke2fs ssh-keygen iasl apt-get dpkg-deb
  [[ -e $IMG/done ]] && { echo "$IMG"; return; }
  mkdir -p "$VM_CACHE"
  exec 9>"$VM_CACHE/lock"; flock 9
  [[ -e $IMG/done ]] && { echo "$IMG"; return; }
  local t deb ver; t=$(mktemp -d "$VM_CACHE/tmp.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$t'" EXIT
  umask 022; mkdir "$t/deb" "$t/out"
  local mirror=$VM_MIRROR
  [[ $mirror ]] || mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $VM_SUITE" | head -n 1)
  [[ $mirror ]] || die "apt knows no mirror for $VM_SUITE: set VM_MIRROR"
  # the kernel is unpacked, not installed: no initramfs-tools, no hooks
  deb=$(apt-cache depends "$VM_KERNEL" | awk '/Depends: linux-image/ {print $2; exit}')
  [[ $deb ]] || die "apt does not know $VM_KERNEL: run 'vm.sh deps'"
  (cd "$t/deb" && apt-get -qq -o APT::Sandbox::User=root download "$deb")
  mmdebstrap -q --variant=essential --mode=root --include="${VM_PACKAGES// /,}" \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$VM_SUITE" "$t/root" "$mirror"
  dpkg-deb --fsys-tarfile "$t"/deb/*.deb | tar -C "$t/deb" -xf - ./boot ./lib/modules
  cp -a "$t"/deb/lib/modules "$t/root/usr/lib/"
  ver=$(ls "$t/deb/lib/modules")
  chroot "$t/root" depmod "$ver"
  cp "$t/deb/boot/vmlinuz-$ver" "$t/out/vmlinuz"
  ssh-keygen -q -t ed25519 -N '' -C vm-test -f "$t/out/id"
  make_root "$t/root" "$t/out/id" "$t/out/known_hosts"
  make_ssdt "$t/out/cpufreq"
  truncate -s 1G "$t/out/root.img"
  mke2fs -q -t ext4 -F -m 0 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard -J size=8 \
    -O ^metadata_csum_seed,^orphan_file -d "$t/root" "$t/out/root.img" 2>/dev/null ||
  mke2fs -q -t ext4 -F -m 0 -J size=8 -d "$t/root" "$t/out/root.img"
  touch "$t/out/done"
  rm -rf "$IMG"; mv "$t/out" "$IMG"
  echo "$IMG"
}

qemu_pid() {  # prints our QEMU's pid, if it still is ours
  local p; p=$(cat "$VM_RUN/pid" 2>/dev/null) || return 1
  [[ $p ]] && tr '\0' '\n' <"/proc/$p/cmdline" 2>/dev/null | grep -qxF "$VM_RUN/pid" && echo "$p"
}

marks() { grep -ac "$MARK" "$LOG" 2>/dev/null || true; }

wait_boot() {  # N: until the Nth boot has said it is ready
  local end=$((SECONDS + VM_TIMEOUT))
  until (( $(marks) >= $1 )); do
    qemu_pid >/dev/null || { tail -n 20 "$LOG" >&2; die 'QEMU has ended'; }
    ((SECONDS < end)) || { tail -n 20 "$LOG" >&2; die "no boot within $VM_TIMEOUT s"; }
    sleep 0.1
  done
}


start() {
  need qemu-system-x86_64 qemu-img ssh
  [[ -e $IMG/done ]] || die 'no image: run build'
  qemu_pid >/dev/null && die 'already running'
  rm -rf "$VM_RUN"; mkdir -p "$VM_RUN"
  qemu-img create -q -f qcow2 -b "$IMG/root.img" -F raw "$VM_RUN/root.qcow2"
  truncate -s "${VM_DATA_MB}M" "$VM_RUN/data1.img" "$VM_RUN/data2.img"
  echo "$IMG" >"$VM_RUN/image"
  trap '(stop)' EXIT               # a first boot that fails leaves nothing behind
  boot
  trap - EXIT
}

boot() {  # one boot is one QEMU: after a guest reset QEMU ends (-no-reboot), since a warm reset is slow under TCG
  local acc=$VM_ACCEL cpu i port half=$((VM_MEM / 2)) n img
  img=$(cat "$VM_RUN/image")
  [[ $acc == tcg ]] && acc=tcg,thread=multi
  # TCG's default family 15 is K8 to the kernel, which then refuses acpi-cpufreq
  cpu=max,family=23,model=49,svm=off,la57=off; [[ $acc == kvm ]] && cpu=host,arch-capabilities=off
  n=$(($(marks) + 1))
  local d='cache=unsafe,if=none,discard=unmap' freeze=off
  [[ $VM_FREEZE_ROOT ]] && freeze=on
  local data1=(-drive "file=$VM_RUN/data1.img,id=data1,format=raw,$d")
  # A disk with a write cache: what was flushed can be told from what was not. No NVMe: QEMU's (7.2) takes the guest's
  # FUA writes, such as the journal's commits, and forgets that they are; with virtio the guest flushes instead.
  if [[ $VM_WRITE_LOG ]]; then
    rm -f "$VM_RUN/data1.log"; : >"$VM_RUN/data1.log"
    data1=(-blockdev "driver=file,filename=$VM_RUN/data1.img,node-name=d1image"
           -blockdev "driver=file,filename=$VM_RUN/data1.log,node-name=d1log"
           -blockdev "driver=blklogwrites,file=d1image,log=d1log,node-name=data1"
           -device virtio-blk-pci,drive=data1,serial=data1)
  else
    data1+=(-device nvme,drive=data1,serial=data1)
  fi
  for ((i = 0; i < 20; i++)); do   # a taken port makes QEMU end at once; try another
    port=$((20000 + RANDOM % 12000))
    if qemu-system-x86_64 -name vmtest -machine pc,usb=off,vmport=off -accel "$acc" -cpu "$cpu" -no-reboot \
      -smp "$VM_SMP,sockets=2,cores=$((VM_SMP / 2)),threads=1" -m "$VM_MEM" \
      -object memory-backend-ram,id=m0,size="${half}M" -object memory-backend-ram,id=m1,size="${half}M" \
      -numa node,nodeid=0,cpus=0-$((VM_SMP / 2 - 1)),memdev=m0 \
      -numa node,nodeid=1,cpus=$((VM_SMP / 2))-$((VM_SMP - 1)),memdev=m1 \
      -nodefaults -no-user-config -display none -vga none \
      -kernel "$img/vmlinuz" \
      -append "root=/dev/nvme0n1 rootwait rw console=ttyS0 loglevel=4 panic=-1 net.ifnames=0 systemd.show_status=0 $VM_APPEND" \
      -acpitable file="$img/cpufreq.aml" \
      -drive file="$VM_RUN/root.qcow2,id=root,format=qcow2,snapshot=$freeze,$d" -device nvme,drive=root,serial=root \
      "${data1[@]}" \
      -drive file="$VM_RUN/data2.img,id=data2,format=raw,$d" -device nvme,drive=data2,serial=data2 \
      -netdev "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=n,romfile= \
      -device virtio-rng-pci \
      -chardev file,id=con,path="$LOG",append=on -serial chardev:con \
      -chardev file,id=said,path="$VM_RUN/said.log",append=on -serial chardev:said \
      -daemonize -pidfile "$VM_RUN/pid" 2>"$VM_RUN/qemu.err"; then break; fi
    grep -q 'host forwarding' "$VM_RUN/qemu.err" || { cat "$VM_RUN/qemu.err" >&2; die 'QEMU did not start'; }
    port=
  done
  [[ $port ]] || die 'no free port'
  echo "$port" >"$VM_RUN/port"; echo "$acc" >"$VM_RUN/accel"
  wait_boot "$n"
  ssh_up
  run timeout "$VM_TIMEOUT" systemctl is-system-running --wait >/dev/null 2>&1 || true   # late mounts too; may be degraded
  echo "up: $acc, ssh on 127.0.0.1:$port"
}

# shellcheck disable=SC2054
ssh_opts() {
  local img; img=$(cat "$VM_RUN/image")
  O=(-F none -i "$img/id" -o IdentitiesOnly=yes -o UserKnownHostsFile="$img/known_hosts" -o StrictHostKeyChecking=yes
     -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=20 -o ControlPath="$CM" -o Ciphers=aes128-gcm@openssh.com,chacha20-poly1305@openssh.com
     -o KexAlgorithms=curve25519-sha256 -o ServerAliveInterval=10 -o ServerAliveCountMax=6)
}

ssh_up() {  # one master connection; later commands share it, so the key exchange is paid once a boot
  ssh_opts
  ssh "${O[@]}" -O check vm 2>/dev/null && return
  ssh "${O[@]}" -o ControlMaster=yes -o ControlPersist=yes -p "$(cat "$VM_RUN/port")" -fN root@127.0.0.1 </dev/null >/dev/null 2>&1 ||
    die 'ssh does not answer'
}

ssh_down() { [[ -S $CM ]] || return 0; ssh_opts; ssh "${O[@]}" -O exit vm 2>/dev/null || true; rm -f "$CM"; }

up() { qemu_pid >/dev/null || die 'not running'; ssh_up; }

run() {  # the arguments are kept as given; 255 means ssh itself failed, 124 a time-out
  (($#)) || die 'run what?'
  up; timeout "$VM_RUN_TIMEOUT" ssh "${O[@]}" -p "$(cat "$VM_RUN/port")" root@127.0.0.1 "$(printf '%q ' "$@")"
}

copy() { up; timeout "$VM_RUN_TIMEOUT" scp -q -p -r -P "$(cat "$VM_RUN/port")" "${O[@]}" "$1" "root@127.0.0.1:$2"; }
fetch() { up; timeout "$VM_RUN_TIMEOUT" scp -q -p -r -P "$(cat "$VM_RUN/port")" "${O[@]}" "root@127.0.0.1:$1" "$2"; }

reboot() {  # a real one, through systemd; back when the new boot is ready
  up; local p end=$((SECONDS + VM_TIMEOUT)); p=$(qemu_pid)
  run systemctl reboot >/dev/null 2>&1 || true
  ssh_down
  while kill -0 "$p" 2>/dev/null; do
    ((SECONDS < end)) || die "no shutdown within $VM_TIMEOUT s"
    sleep 0.1
  done
  boot
}

forward() {  # LOCAL REMOTE: a Unix socket of the guest, here, until the VM ends or is cut
  up; rm -f "$1"; ssh "${O[@]}" -O forward -L "$1:$2" vm
}

cut() {  # no flush, no shutdown: what the guest has not written is gone
  local p; p=$(qemu_pid) || die 'not running'
  kill -9 "$p"
  ssh_down
  while kill -0 "$p" 2>/dev/null; do sleep 0.05; done
}

stop() {
  local p i
  [[ -e $VM_RUN/image ]] && ssh_down
  if p=$(qemu_pid); then
    kill "$p"
    for ((i = 0; i < 50; i++)); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
    if qemu_pid >/dev/null; then kill -9 "$p"; fi
  fi
  rm -rf "$VM_RUN"
}

status() {
  qemu_pid >/dev/null || { echo down; return 3; }
  echo "up $(cat "$VM_RUN/accel") pid $(cat "$VM_RUN/pid") port $(cat "$VM_RUN/port")"
}
log() { cat "$LOG"; }

IMG=$VM_CACHE/$(key)
verb=${1:-}; shift || true
case $verb in
  deps|build|start|run|copy|fetch|reboot|cut|boot|forward|stop|status|log) "$verb" "$@" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
