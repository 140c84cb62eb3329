"""Whether pods reach the W&B server: asked by a short-lived Job."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.probe import Answer, build_probe, run_probe
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.kinds import Manifest

DEADLINE_SECONDS = 300  # of the pod, its pull included
ASK = """
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=15)
except urllib.error.HTTPError:
    pass
except Exception as error:
    sys.exit(str(error))
"""
CHOOSING = ("nodeSelector", "affinity", "runtimeClassName", "hostIPC")


def examine_reach(case: Case, base_url: str) -> Iterator[Finding]:
    """Open the server's address in a pod with the agents' image. Raises KubeError."""
    if case.job is None:
        return
    job = build_reach_probe(case.job, base_url, case.section.python)
    yield judge_answer(case.namespace, base_url, run_probe(case.kube, job, case.grows))


def build_reach_probe(job: Manifest, base_url: str, python: str) -> Manifest:
    """Return a Job that opens an address: without a GPU, on any node; pure."""
    pod = job["spec"]["template"]["spec"]
    anywhere = {name: value for name, value in pod.items() if name not in CHOOSING}
    command = [python, "-c", ASK, base_url]
    return build_probe(anywhere, job["metadata"], command, DEADLINE_SECONDS)


def judge_answer(namespace: str, base_url: str, answer: Answer) -> Finding:
    """Say what the pod found; pure."""
    subject = f"pods to {base_url}"
    if answer.exit_code == 0:
        return right("reach-inside", subject, "a pod reaches it")
    if answer.exit_code is not None:
        said = f"a pod does not reach it: {answer.last_line or 'it did not say why'}"
        remedy = f"kubectl get networkpolicies,svc -A; is {base_url} an address inside the cluster?"
        return wrong("reach-inside", subject, said, remedy)
    why = answer.reason.sentence if answer.reason else "nobody says why"
    remedy = answer.reason.remedy if answer.reason else ""
    said = f"the pod that should ask does not start: {why}"
    return unknown("reach-inside", f"pods in {namespace}", said, remedy)
