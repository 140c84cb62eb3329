# PID 1 of a real node, in mount, PID and network namespaces of its own: one SIGKILL ends it all.
# $1 = the node's folder, $2 = runc and the rest, $3 = containerd's folder, $4 = the kubelet, the rest
# = its flags.
set -eu
node=$1 runtime=$2 containerd=$3 kubelet=$4
shift 4
export PATH=$containerd:$runtime/usr/bin:$runtime/usr/sbin:$PATH
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mount --bind "$node/log" /var/log
# Forwarding belongs to the network namespace. The other settings belong to the whole machine: the
# kubelet writes them unless it reads the value that it wants, so it reads these files instead.
echo 1 > /proc/sys/net/ipv4/ip_forward
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$node/sysctl-$(echo "${setting%=*}" | tr / -)
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
containerd --config "$node/containerd.toml" > "$node/log/containerd.log" 2>&1 &
ctr="ctr --address $node/containerd.sock"
while ! $ctr version > /dev/null 2>&1; do sleep 0.05; done
$ctr --namespace k8s.io images import "$node/image.tar"
"$kubelet" "$@" 2>&1 &
while :; do wait; sleep 1; done
