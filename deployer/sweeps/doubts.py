"""Doubts about results: runs that cannot be ranked, and possible failures; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from deployer.sweeps.results import Results, find_value, metric_value
from deployer.text import format_count
from deployer.wandb_api.model import parse_json

SIGNALS = 128  # larger exit codes of a shell are signals
READ_LINES = 1000  # at the end of a run's output: wandb prints a warning for each dropped row
DROPPED = re.compile(r"Tried to log to step \d+ that is less than the current step \d+")
SHARED = "deployer_shared_files"  # agent/prologue/deployer_shared.py
MOST_NAMED = 4
SAME = {"acc": "accuracy", "err": "error"} | dict.fromkeys(("val", "valid", "eval", "test"), "")


def list_doubts(results: Results) -> tuple[str, ...]:
    """Return warnings to read before trusting a ranking."""
    return (
        *list_metric_doubts(results),
        *_doubt_exits(results),
        *_doubt_processes(results),
        *_doubt_files(results),
        *_doubt_equal_curves(results),
    )


def note_dropped(results: Results, read_tail: Callable[[str, int], Sequence[str]]) -> Results:
    """Add wandb's own warning if the first run without the metric dropped rows.

    `read_tail` returns the last lines of a run's output, up to a number.
    """
    first = next((r for r in results.rows if r.state == "finished" and r.value is None), None)
    if not results.unlogged or first is None:
        return results
    found = DROPPED.search("\n".join(read_tail(first.run_id, READ_LINES)))
    said = f"wandb dropped rows of {first.run_id}: {found[0]}" if found else ""
    return replace(results, dropped=said)


def list_metric_doubts(results: Results) -> tuple[str, ...]:
    """Report how many finished runs cannot be ranked, and a likely name of the metric."""
    total = results.unlogged + results.not_finite + sum(r.rank is not None for r in results.rows)
    wrong = list_wrong(results)
    unlogged, counted = results.unlogged - len(wrong), f"{len(wrong)} of {total} runs"
    doubts = [f"{results.metric} is {one} in {counted}: log a number" for one in wrong[:1]]
    if unlogged == total > 0:
        doubts.append(f"no finished run logged {results.metric}: {_say_logged(results)}")
    elif unlogged:
        said = f"{unlogged} of {total} finished runs did not log {results.metric}"
        doubts.append(": ".join(filter(None, (said, results.dropped))))
    if results.not_finite:
        said = f"{results.metric} is NaN or infinite in {results.not_finite} of {total}"
        doubts.append(f"{said} finished runs, which rank last")
    return tuple(doubts)


def list_wrong(results: Results) -> list[str]:
    """Describe the values that finished runs logged instead of a number."""
    done = ("finished", "killed") if results.coverage.stopped_early else ("finished",)
    missing = [row.summary for row in results.rows if row.state in done and row.value is None]
    name = str(results.metric)
    values = [find_value(one, name) for one in missing if metric_value(one, name) is None]
    found = [value for value in values if value is not None]
    return [f"{'text' if isinstance(v, str) else 'no number'} ({repr(v)[:40]})" for v in found]


def _doubt_exits(results: Results) -> Iterator[str]:
    """Report processes that failed without W&B's client noticing."""
    done = [row for row in results.rows if row.state == "finished"]
    bad = [row for row in done if row.attempts and 0 < (row.exit_code or 0) < SIGNALS]
    if bad:
        yield (
            f"{len(bad)} of {len(done)} finished runs exited with an error, first "
            f"{bad[0].run_id} with {bad[0].exit_code}: wandb marks a run as finished if it fails "
            "after run.finish(), or by raise SystemExit instead of sys.exit()"
        )


def _doubt_equal_curves(results: Results) -> Iterator[str]:
    """Report configurations without effect, for example if the script ignores its flags."""
    rows = [row for row in results.rows if row.run_id in results.equal_curves]
    if rows:
        names = [
            name
            for name, value in rows[0].parameters.items()
            if any(row.parameters.get(name) != value for row in rows)
        ]
        shown = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
        yield (
            f"{len(rows)} configurations that differ in {shown} have the same curve of "
            f"{results.metric}: does the script read {'them' if len(names) > 1 else 'it'}?"
        )


def _doubt_processes(results: Results) -> Iterator[str]:
    """Report runs that hold only a part of the data logged under their id."""
    if rows := [row for row in results.rows if row.apart]:
        yield (
            f"{len(rows)} of {len(results.rows)} runs called wandb.init more than once, first "
            f"{rows[0].run_id}: other values are in {', '.join(rows[0].apart)}, "
            "without a rank (call it once, in one process, such as rank 0)"
        )


def _doubt_files(results: Results) -> Iterator[str]:
    """Report files of a shared folder that several runs wrote."""
    writers: dict[str, set[str]] = {}
    for row in results.rows:
        for name, ids in parse_json(row.summary.get(SHARED)).items():
            writers.setdefault(name, set()).update(ids)
    if writers:
        name, ids = max(sorted(writers.items()), key=lambda one: len(one[1]))
        others = len(writers) - 1
        more = f" (and {format_count(others, 'other file')})" if others else ""
        named = ", ".join(sorted(ids)[:MOST_NAMED]) + (", …" if len(ids) > MOST_NAMED else "")
        written = f"{name}{more} was written by {len(ids)} runs ({named})"
        yield f"{written}: set `isolate: true` in deployer.yaml"


def _say_logged(results: Results) -> str:
    if results.dropped:
        return results.dropped
    if not results.logged:
        return "the first of them did not log any number"
    near = find_near(results)
    meant = f"; did you mean {near}?" if near else ""
    return f"the first of them logged {', '.join(results.logged)}{meant}"


def find_near(results: Results) -> str:
    """Return a logged name with the metric's words, except for words such as `val`.

    Such a name has the same goal.
    """
    asked = _find_words(str(results.metric))
    return next((name for name in results.logged if _find_words(name) == asked), "")


def _find_words(name: str) -> set[str]:
    words = {SAME.get(word, word) for word in re.split(r"[\W_]+", name.lower())}
    return words - {""} or {name}
