"""Why finished runs cannot be ranked by the metric; pure."""

from __future__ import annotations

import difflib

from deployer.sweeps.results import Results


def list_metric_doubts(results: Results) -> tuple[str, ...]:
    """Say how many finished runs cannot be ranked, and what the metric may be called instead."""
    total = results.unlogged + results.not_finite + sum(r.rank is not None for r in results.rows)
    doubts = []
    if results.unlogged == total > 0:
        doubts.append(f"no finished run logged {results.metric}: {_say_logged(results)}")
    elif results.unlogged:
        doubts.append(f"{results.unlogged} of {total} finished runs did not log {results.metric}")
    if results.not_finite:
        said = f"{results.metric} is NaN or infinite in {results.not_finite} of {total}"
        doubts.append(f"{said} finished runs, which are ranked last")
    return tuple(doubts)


def _say_logged(results: Results) -> str:
    if not results.logged:
        return "the first of them logged no number"
    near = difflib.get_close_matches(str(results.metric), results.logged, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"the first of them logged {', '.join(results.logged)}{meant}"
