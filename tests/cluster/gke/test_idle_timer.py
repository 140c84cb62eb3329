"""The timer of infra/timer on a real cluster: its rights, its pod's security, its program."""

from __future__ import annotations

import time

from deployer.executors.gke.timer import NAME, NAMESPACE, ROLE_NAME, build_timer, ensure_timer
from deployer.gke.api.model import CloudCluster
from tests.cluster.bed import open_client
from tests.cluster.cluster import Cluster
from tests.gke.specs import GOOD, HEAD, parse


def test_the_timer_looks_and_says_what_keeps_the_cluster(cluster: Cluster) -> None:
    spec = parse(f"{HEAD}delete_when_idle: 2h\n{GOOD}")
    pod = build_timer(spec, "p", "l", 0.0)[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    cluster.add_image(pod["containers"][0]["image"])
    kube = open_client(cluster.kubeconfig, "default")
    look, here = ("-n", NAMESPACE), CloudCluster("lab", "l", "", "", b"", {}, (), (), "", "")
    try:
        for _ in range(2):  # it can be set again
            [said] = ensure_timer(kube, spec, "p", here, time.time())
        assert said.startswith("a timer in the cluster deletes it 2 h 00 min after")
        cluster.kubectl("create", "job", "now", f"--from=cronjob/{NAME}", *look)
        cluster.wait_for("job/now", "condition=complete", NAMESPACE)
        assert "the cluster stays: " in cluster.kubectl("logs", "job/now", *look)

        without = parse(HEAD + GOOD)
        assert len(ensure_timer(kube, without, "p", here, time.time())) == 1
        assert ensure_timer(kube, without, "p", here, time.time()) == ()
    finally:
        gone = ("--ignore-not-found", "--wait=false")
        cluster.kubectl("delete", "namespace", NAMESPACE, *gone)
        for kind in ("clusterrolebinding", "clusterrole"):
            cluster.kubectl("delete", kind, ROLE_NAME, *gone)
