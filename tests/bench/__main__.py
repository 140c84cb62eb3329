"""`make bench`: print each figure, its goal, and whether it is met; exit 1 if one is missed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    agents,
    big_sweep,
    cluster,
    command_line,
    data_path,
    doctor,
    memory,
    pace,
    page,
    quality,
    script_check,
    small_files,
    suggestions,
    traffic,
)
from tests.bench.figures import Figure, render
from tests.bench.load import bench as load

BENCHMARKS: dict[str, Callable[[Path], list[Figure]]] = {
    "help": command_line.bench_help,
    "script-check": script_check.bench_script_check,
    "first-metric": agents.bench_first_metric,
    "null-runs": agents.bench_null_runs,
    "torch-runs": agents.bench_torch_runs,
    "users-null-runs": agents.bench_users_null_runs,
    "users-torch-runs": agents.bench_users_torch_runs,
    "time-to-begin": pace.bench_time_to_begin,
    "demo": pace.bench_demo,
    "short-runs": pace.bench_short_runs,
    "traffic": traffic.bench_traffic,
    "data-path": data_path.bench_data_path,
    "memory": memory.bench_memory,
    "small-files": small_files.bench_small_files,
    "warm-memory": memory.bench_warm_memory,
    "load": load.bench_load,
    "load-table": load.bench_load_table,
    "load-lines": load.bench_load_lines,
    "request-for-work": suggestions.bench_request_for_work,
    "page": page.bench_page,
    "big-sweep": big_sweep.bench_big_sweep,
    "search-quality": quality.bench_search_quality,
    "doctor": doctor.bench_doctor,
    "thousand-agents": cluster.bench_thousand_agents,
    "first-metric-in-pod": cluster.bench_first_metric_in_pod,
}
BY_NAME_ALONE = ("search-quality", "load-table", "load-lines")
ON_A_CLUSTER = ("doctor", "thousand-agents", "first-metric-in-pod")


def main() -> int:
    """Run the benchmarks named in the arguments, or all."""
    chosen = sys.argv[1:] or [name for name in BENCHMARKS if name not in BY_NAME_ALONE]
    if not sys.argv[1:]:
        print(f"not run, since it takes long: {', '.join(BY_NAME_ALONE)}")
    if not sys.argv[1:] and os.geteuid():
        chosen = [name for name in chosen if name not in ON_A_CLUSTER]
        print(f"not run: {', '.join(ON_A_CLUSTER)} (a test cluster needs root)")
    figures = []
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
            for figure in BENCHMARKS[name](Path(folder)):
                figures.append(figure)
                print(render(figure), flush=True)
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
