"""`--in-image`: a dress rehearsal on this machine, in the image that the pods will have."""

from __future__ import annotations

import shlex
import sys

from deployer.cli.output.probe_view import build_report_lines, probe_to_plain
from deployer.cli.output.render import say, show_json
from deployer.cli.running.probe import check_metric, describe_end, name_command
from deployer.config.project import Project
from deployer.errors import SweepFailed
from deployer.launch.rehearsal import Rehearsal, rehearse
from deployer.launch.request import Request
from deployer.watch.probe import Verdict


def run_rehearsal(project: Project, request: Request, output: str, *, to_end: bool = False) -> None:
    """Run one configuration in the pod's image here, say what it shows, and leave nothing behind.

    Raises SweepFailed if it was no good.
    """
    found = rehearse(project, request, say, lambda line: say(f"  | {line}"), to_end=to_end)
    for line in build_report_lines(found.report, "the rehearsal"):
        say(line)
    try:
        _check(found)
    finally:
        if output == "json":
            show_json(probe_to_plain(found.report, None))
    say(f"to start it in the cluster: {name_command()}")


def _check(found: Rehearsal) -> None:
    report = found.report
    again = f"mend it, then: deployer {shlex.join(sys.argv[1:])}"
    if report.verdict is Verdict.NO_RUN or report.row is None:
        said = f"the container has ended with {found.exit_code} before a run began"
        raise SweepFailed(said, f"its last lines say why; {again}")
    if report.verdict is Verdict.FAILED:
        raise SweepFailed(f"the rehearsal has failed{describe_end(report.row)}", again)
    check_metric(report, "the rehearsal")
