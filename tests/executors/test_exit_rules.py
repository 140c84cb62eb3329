"""Which exit codes of a supervisor a Job counts, ignores, or takes as final."""

from __future__ import annotations

import yaml

from deployer.agent.exit_codes import GAVE_UP, MISCONFIGURED, STOPPED
from deployer.executors.kubernetes.manifests.templates import find_folder


def test_the_job_goes_by_the_supervisors_codes() -> None:
    [job] = yaml.safe_load_all((find_folder() / "agent.yaml").read_text())
    rules = job["spec"]["podFailurePolicy"]["rules"]
    codes = {
        rule["action"]: rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule
    }
    assert codes == {"Ignore": [STOPPED], "FailJob": [GAVE_UP, MISCONFIGURED]}
