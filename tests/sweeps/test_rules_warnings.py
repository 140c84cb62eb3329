"""The text of every warning about a sweep file that runs all the same."""

from __future__ import annotations

import pytest

from deployer.errors import ConfigError, Severity
from deployer.sweeps.sweep_file import parse_sweep
from tests.sweeps.sweep_texts import grid, random_sweep

EXPONENTS = "use log_uniform_values and write the values themselves"
DOUBTS: list[tuple[str, str]] = [
    (
        grid("lr: {values: [1e-5, '1e-4', 0.1]}"),
        "s.yaml:4: parameters.lr.values[0]: '1e-5' is text, not a number"
        " (YAML 1.1 needs a dot: write 1.0e-5, or put it in quotes)",
    ),
    (
        grid("kernel: {values: [(1, 2), (4, 5)]}"),
        "s.yaml:4: parameters.kernel.values: YAML has no tuples, so these are 4 texts, such as '(1'"
        " (write lists, such as [[1, 2], [3, 4]])",
    ),
    (
        grid("lr: {value: 1}") + "command: [python, t.py, --a=1 --b=2, '${args}']\n",
        "s.yaml:5: command[2]: several flags in one word: the script gets them as one argument"
        " (write each flag as a separate word: --a=1, --b=2)",
    ),
    (
        grid("lr: {value: 08}"),
        "s.yaml:4: parameters.lr.value: '08' is text, not a number (write 8, or put it in quotes)",
    ),
    (
        grid("lr: {values: [on, false]}"),
        "s.yaml:4: parameters.lr.values[0]: on is read as the boolean True"
        " (write true, or 'on' in quotes)",
    ),
    (
        grid("lr: {value: no}"),
        "s.yaml:4: parameters.lr.value: no is read as the boolean False"
        " (write false, or 'no' in quotes)",
    ),
    (
        grid("lr: {value: 017}"),
        "s.yaml:4: parameters.lr.value: 017 is read as 15 (write 15, or '017' in quotes)",
    ),
    (
        grid("lr: {value: 12:30:00}"),
        "s.yaml:4: parameters.lr.value: 12:30:00 is read as 45000"
        " (write 45000, or '12:30:00' in quotes)",
    ),
    (
        grid("lr: {value: 1}\nlr: {value: 2}"),
        "s.yaml:5: parameters.lr: the key appears twice (also in line 4); the last one counts"
        " (remove one of them)",
    ),
    (
        # What is inside is not written twice, and what nobody reads is not doubtful.
        grid("lr: {values: [1e-5]}\nlr: {values: [1]}\nlr: {values: [2]}"),
        "s.yaml:6: parameters.lr: the key appears twice (also in line 4); the last one counts"
        " (remove one of them)",
    ),
    (
        grid("lr: {value: 1, vlaue: 2}"),
        "s.yaml:4: parameters.lr.vlaue: W&B does not know 'vlaue' here (did you mean value?)",
    ),
    (
        grid("3d: {value: 1}"),
        "s.yaml:4: parameters.3d: W&B's schema does not allow the name '3d'"
        " (use letters, digits, _ . - and begin with a letter or _)",
    ),
    (
        grid("a: {min: 1, max: 10001}"),
        "s.yaml:3: parameters: the grid has 10,001 configurations"
        " (choose method: random with a run_cap)",
    ),
    (
        random_sweep("lr: {distribution: log_uniform, min: -5, max: 0}"),
        "s.yaml:4: parameters.lr: log_uniform takes exponents of e:"
        f" values go from 0.00674 to 1 ({EXPONENTS})",
    ),
    (
        grid("lr: {value: 1}", "parameter: 1\n"),
        "s.yaml:5: parameter: W&B does not know 'parameter' (did you mean parameters?)",
    ),
    (
        grid("lr: {value: 1}", "metric: {name: x}\n"),
        "s.yaml:5: metric.goal: missing, so the smallest value counts as the best"
        " (add goal: minimize or goal: maximize)",
    ),
    (
        grid("lr: {value: 1}", "metrics: {name: x, goal: maximize}\n"),
        "s.yaml:5: metrics: runs cannot be ranked without a metric"
        " (write metric: {name: loss, goal: minimize})",
    ),
    (
        grid("lr: {value: 1}", "metric: {name: x, gaol: minimize}\n"),
        "s.yaml:5: metric.gaol: W&B does not know 'gaol' (did you mean goal?)",
    ),
    (
        grid("lr: {value: 1}", "name: 2026\n"),
        "s.yaml:5: name: 2026 is not text (write name: '2026')",
    ),
    (
        grid("lr: {value: 1}", "early_terminate: {type: median}\n"),
        "s.yaml:5: early_terminate: the only known type is hyperband, so no run is stopped early"
        " (write early_terminate: {type: hyperband, min_iter: 3})",
    ),
    (
        grid("lr: {value: 1}", "early_terminate: {type: hyperband, s: 2}\n"),
        "s.yaml:5: early_terminate: hyperband needs min_iter, or max_iter and s (add min_iter: 3)",
    ),
    (
        grid("lr: {value: 1}", "early_terminate: {type: hyperband, min_iter: 2}\n"),
        "s.yaml:5: early_terminate: early_terminate needs a metric"
        " (add metric: {name: loss, goal: minimize})",
    ),
]


@pytest.mark.parametrize(("text", "warning"), DOUBTS)
def test_doubtful_sweeps_run_with_a_warning(text: str, warning: str) -> None:
    assert parse_sweep(text, "s.yaml").warnings == (warning,)


def test_a_capped_grid_is_not_large() -> None:
    text = grid("a: {min: 1, max: 10001}", "run_cap: 10\n")
    assert parse_sweep(text, "s.yaml").warnings == ()


def test_an_error_does_not_hide_what_is_doubtful() -> None:
    text = grid("on: {value: 1}\nlr: {min: 1e-5, max: 1}\nb: {value: 010}", "paramters: 1\n")
    with pytest.raises(ConfigError) as caught:
        parse_sweep(text, "s.yaml")
    assert [(one.severity, one.subject) for one in caught.value.findings] == [
        (Severity.ERROR, "s.yaml:4: parameters.on"),
        (Severity.ERROR, "s.yaml:5: parameters.lr.min"),
        (Severity.WARNING, "s.yaml:6: parameters.b.value"),
        (Severity.WARNING, "s.yaml:7: paramters"),
    ]
    assert [(one.message, one.fix) for one in caught.value.findings[2:]] == [
        ("010 is read as 8", "write 8, or '010' in quotes"),
        ("W&B does not know 'paramters'", "did you mean parameters?"),
    ]
