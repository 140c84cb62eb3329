"""A report as Markdown, for a paper or a chat: the terminal's figures in a page of text; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deployer.report.collection import Material
from deployer.report.words import count_causes, describe_cause, describe_lead, list_costs
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.results import Results, Row
from deployer.sweeps.wording import MOST_NAMED, describe_configuration, list_varying, word_value
from deployer.text import format_count, format_runtime, format_value, name_columns

RANKED = 10
FAILURES = 10
SPECIAL = "\\`*_[]<>|~$#"


def build_markdown(material: Material) -> str:
    """Return the report; whatever users named is text in it, never a link, a heading or a cell."""
    results, sweep = material.results, material.source.sweep
    parts = [
        f"# {escape(sweep.title)}",
        f"`{sweep.path}` on {escape(material.server_url)}, {escape(_describe_sweep(material))}.",
        _list_facts(results),
        _build_ranking(results),
        _describe_importance(material),
        _list_failures(material),
        _list_costs(material),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(value: object) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    flat = " ".join(str(value).split())
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in flat)


def build_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose cells are escaped."""
    lines = [[escape(cell) for cell in row] for row in (heads, *rows)]
    lines.insert(1, ["---"] * len(heads))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _describe_sweep(material: Material) -> str:
    results, sweep = material.results, material.source.sweep
    aim = f", {results.goal} {results.metric}" if results.metric else ""
    reason = f" ({results.stop_reason})" if results.stop_reason else ""
    return f"{sweep.method}{aim}, {material.document['state']}{reason}"


def _list_facts(results: Results) -> str:
    lines = [escape(results.coverage.sentence())]
    if results.best:
        value = f"{results.metric}={format_value(results.best.value)}"
        configuration = describe_configuration(results.best, results.rows)
        lines.append(escape(f"best: {results.best.run_id} {value} with {configuration}"))
    lead = describe_lead(results)
    lines += [escape(lead)] if lead else []
    lines += [escape(f"warning: {doubt}") for doubt in list_doubts(results)]
    return "\n".join(f"- {line}" for line in lines)


def _build_ranking(results: Results) -> str:
    ranked = [row for row in results.rows if row.rank is not None]
    if not ranked:
        return ""
    names = list_varying([row.parameters for row in ranked])[:MOST_NAMED]
    own = ["rank", "run", results.metric or "value"]
    heads = [*own, *name_columns(names, [*own, "time"]), "time"]
    table = build_table(heads, (_rank(row, names) for row in ranked[:RANKED]))
    more = f" ({RANKED} of {len(ranked)})" if len(ranked) > RANKED else ""
    return f"## Ranking{more}\n\n{table}"


def _rank(row: Row, names: Sequence[str]) -> list[object]:
    cells = [_cell(row, name) for name in names]
    return [row.rank, _name(row), format_value(row.value), *cells,
            format_runtime(row.duration_seconds)]  # fmt: skip


def _name(row: Row) -> str:
    return f"{row.run_id} {row.title}" if row.title not in ("", row.run_id) else row.run_id


def _cell(row: Row, name: str) -> str:
    return word_value(row.parameters[name]) if name in row.parameters else ""


def _describe_importance(material: Material) -> str:
    if not material.results.metric:
        return ""
    found = material.importance
    return f"## Importance\n\n{escape(found.get('sentence') or found.get('missing') or '')}"


def _list_failures(material: Material) -> str:
    results = material.results
    causes = count_causes(results.rows)
    if not results.failures and not causes:
        return ""
    lines = [f"{format_count(n, 'attempt')} {cause}" for cause, n in causes.items()]
    shown = results.failures[:FAILURES]
    for row in shown:
        said = material.last_words.get(row.run_id, "")
        how = f"{describe_cause(row)} ({describe_configuration(row)})"
        lines.append(f"{row.state}: {_name(row)}, {how}{': ' if said else ''}{said}")
    if len(results.failures) > FAILURES:
        lines.append(f"and {len(results.failures) - FAILURES} more runs that failed")
    return "## Failures\n\n" + "\n".join(f"- {escape(line)}" for line in lines)


def _list_costs(material: Material) -> str:
    rows = list_costs(material.cost).items()
    return f"## Time and cost\n\n{build_table(['', ''], rows)}"
