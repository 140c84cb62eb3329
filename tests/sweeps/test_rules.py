"""The text and the hint of every error about a sweep file."""

from __future__ import annotations

import pytest

from tests.sweeps.sweep_texts import errors_of, grid, random_sweep

EXPONENTS = "use log_uniform_values and write the values themselves"
NOTHING = "add value, values, or min and max"
PARAMETERS: list[tuple[str, str, str]] = [
    (
        "lr: {min: 1e-5, max: 1.0}",
        "lr.min: '1e-5' is text, not a number",
        "YAML 1.1 needs a dot: write 1.0e-5",
    ),
    (
        "lr: {min: low, max: 1}",
        "lr.min: 'low' is text, not a number",
        "write a number, or values: [low]",
    ),
    ("lr: {min: , max: 1}", "lr.min: null is not a finite number", "write a number"),
    ("lr: {min: 0.0, max: .inf}", "lr.max: inf is not a finite number", "write a number"),
    ("lr: {min: true, max: 5}", "lr.min: True is not a finite number", "write a number"),
    ("lr: {min: 3, max: 1}", "lr.min: 3 is not below max (1)", "swap them"),
    ("lr: {min: 3, max: 3}", "lr.min: 3 is not below max (3)", "write value: 3"),
    (
        "lr: {min: 0, max: 0.5}",
        "lr: min 0 and max 0.5 mix an integer and a decimal number",
        "write both in the same way, or add distribution: uniform",
    ),
    ("lr: {min: 1}", "lr: int_uniform needs max", "add max"),
    ("lr: {values: []}", "lr.values: the list is empty", "add at least one value"),
    ("lr: {values: 5}", "lr.values: 5 is not a list", "write values: [5]"),
    ("lr: 5", "lr: 5 is not a mapping", "write {value: 5}"),
    ("lr: [1, 2]", "lr: [1, 2] is not a mapping", "write {values: [1, 2]}"),
    ("lr:", "lr: it has no values", NOTHING),
    ("lr: {}", "lr: it has no values", NOTHING),
    (
        "lr: {parameters: {}}",
        "lr.parameters: there are no parameters",
        "add one: lr: {values: [0.1, 1.0]}",
    ),
    (
        "lr: {parameters: [1]}",
        "lr.parameters: [1] is not a mapping",
        "write lr: {values: [0.1, 1.0]}",
    ),
    (
        "lr: {parameters: {x: {min: 2, max: 1}}}",
        "lr.parameters.x.min: 2 is not below max (1)",
        "swap them",
    ),
    (
        "lr: {parameters: {x: {value: 1}}, value: 2}",
        "lr.value: a group of parameters takes no value",
        "remove it",
    ),
    (
        "lr: {vales: [1, 2]}",
        "lr: W&B does not know vales, and no other key gives values",
        "did you mean values?",
    ),
    (
        "lr: {mu: 1}",
        "lr: mu alone does not define values",
        "add distribution: normal or log_normal",
    ),
    (
        "lr: {distribution: normall}",
        "lr.distribution: 'normall' is not a distribution",
        "did you mean normal?",
    ),
    (
        "lr: {min: 1, max: 2, q: 1}",
        "lr.q: int_uniform takes no q",
        "write distribution: q_uniform, or remove it",
    ),
    ("lr: {value: 1, values: [2]}", "lr.value: categorical takes no value", "remove it"),
    (
        "lr: {values: [1, 2], probabilities: [0.5, 0.6]}",
        "lr.probabilities: the sum is 1.1, not 1",
        "divide each by their sum",
    ),
    (
        "lr: {values: [1, 2], probabilities: [1]}",
        "lr.probabilities: 1 probabilities for 2 values",
        "write one for each value",
    ),
    (
        "lr: {values: [1, 2], probabilities: [2, -1]}",
        "lr.probabilities: not a list of numbers of at least 0",
        "write a list of numbers such as [0.5, 0.5]",
    ),
    (
        "lr: {distribution: int_uniform, min: 0.5, max: 3}",
        "lr.min: 0.5 is not an integer",
        "write 0, or distribution: uniform",
    ),
    (
        "lr: {distribution: log_uniform_values, min: 0, max: 1}",
        "lr.min: 0 has no logarithm",
        "write a min above 0",
    ),
    ("lr: {distribution: normal, sigma: -1}", "lr.sigma: -1 is below 0", "write 0 or more"),
    ("lr: {distribution: beta, b: 0}", "lr.b: 0 is not above 0", "write 1 or more"),
    (
        "lr: {distribution: q_normal, q: 0}",
        "lr.q: 0 is not above 0",
        "write the step between two values",
    ),
    (
        "lr: {distribution: log_uniform, min: 0, max: 1000}",
        "lr: log_uniform takes exponents of e, and e to the 1000 is too large",
        EXPONENTS,
    ),
    ("on: {value: 1}", "on: the name True must be text", "put the name in quotes"),
    (
        "lr: {values: [2026-01-02]}",
        "lr.values[0]: 2026-01-02 is read as a date, which cannot be sent",
        "put it in quotes: '2026-01-02'",
    ),
    (
        "lr: {value: !!set {a}}",
        "lr.value: a set cannot be sent",
        "use text, numbers, lists, mappings",
    ),
]


@pytest.mark.parametrize(("parameter", "message", "hint"), PARAMETERS)
def test_parameters_that_cannot_run(parameter: str, message: str, hint: str) -> None:
    assert errors_of(random_sweep(parameter)) == [(f"s.yaml:4: parameters.{message}", hint)]


ONE = "parameters: {lr: {values: [1]}}\n"
RUN = f"program: t.py\nmethod: grid\n{ONE}"
TOP: list[tuple[str, str, str]] = [
    (f"program: t.py\n{ONE}", "s.yaml: method: missing", "add method: grid, random or bayes"),
    (
        f"program: t.py\nmethd: grid\n{ONE}",
        "s.yaml: method: missing",
        "rename methd to method",
    ),
    (
        f"program: t.py\nmethod: gird\n{ONE}",
        "s.yaml:2: method: 'gird' is not a method",
        "did you mean grid?",
    ),
    (
        "program: t.py\nmethod: grid\n",
        "s.yaml: parameters: missing",
        "add parameters: {lr: {values: [0.1]}}",
    ),
    (
        "program: t.py\nmethod: grid\nparameters: {}\n",
        "s.yaml:3: parameters: there are no parameters",
        "add one: lr: {values: [0.1, 1.0]}",
    ),
    (
        "program: t.py\nmethod: grid\nparameters: {lr: {min: 0.0, max: 1.0}}\n",
        "s.yaml:3: parameters.lr: a grid cannot enumerate a continuous range or probabilities",
        "list values: [...], or choose method: random or bayes",
    ),
    (
        "program: t\nmethod: grid\nparameters:\n  m: {parameters: {a.b: {distribution: beta}}}\n",
        "s.yaml:4: parameters.m.parameters.a.b:"
        " a grid cannot enumerate a continuous range or probabilities",
        "list values: [...], or choose method: random or bayes",
    ),
    (
        f"program: t.py\nmethod: bayes\nrun_cap: 2\n{ONE}",
        "s.yaml: metric: missing, so bayes has nothing to optimise",
        "add metric: {name: loss, goal: minimize}",
    ),
    (
        f"program: t.py\nmethod: random\n{ONE}",
        "s.yaml: run_cap: missing, and random never ends without it",
        "add run_cap: 20, or use --run-cap 20",
    ),
    (
        f"run_cap: '9'\n{RUN}",
        "s.yaml:1: run_cap: '9' is not a whole number above 0",
        "write run_cap: 20",
    ),
    (
        f"metric: loss\n{RUN}",
        "s.yaml:1: metric: 'loss' is not a mapping",
        "write metric: {name: loss, goal: minimize}",
    ),
    (f"metric: {{nme: x}}\n{RUN}", "s.yaml:1: metric.name: missing", "rename nme to name"),
    (
        f"metric: {{name: 5}}\n{RUN}",
        "s.yaml:1: metric.name: 5 is not text",
        "write name: and a metric that the script logs",
    ),
    (
        f"metric: {{name: x, goal: minimise}}\n{RUN}",
        "s.yaml:1: metric.goal: 'minimise' is not a goal",
        "did you mean minimize?",
    ),
    (
        f"metric: {{name: x, target: 1e-3}}\n{RUN}",
        "s.yaml:1: metric.target: '1e-3' is not a number",
        "YAML 1.1 needs a dot: write 1.0e-3",
    ),
    (
        f"method: grid\n{ONE}",
        "s.yaml: program: missing, and so is command",
        "add program: train.py, or command: [...]",
    ),
    (
        f"method: grid\ncommand: ['${{program}}']\n{ONE}",
        "s.yaml: program: missing, but command uses ${program}",
        "add program: train.py, or write the script's name in command",
    ),
    (
        f"command: python train.py\n{RUN}",
        "s.yaml:1: command: 'python train.py' is not a list",
        "write a list: [python, train.py, '${args}']",
    ),
    (
        f"command: [python, {{a: b}}]\n{RUN}",
        "s.yaml:1: command[1]: {'a': 'b'} is not text",
        "put the word in quotes",
    ),
    (
        f"project: a/b/c\n{RUN}",
        "s.yaml:1: project: 'a/b/c' contains /, which names cannot have",
        "write it without /",
    ),
    (f"entity: 5\n{RUN}", "s.yaml:1: entity: 5 is not text", "write entity: '5'"),
    (
        f"project:\n{RUN}",
        "s.yaml:1: project: null is not text",
        "give it a value, or remove it",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), TOP)
def test_sweeps_that_cannot_run(text: str, message: str, hint: str) -> None:
    assert errors_of(text) == [(message, hint)]


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    text = grid("a: 5\nb: {values: []}", "metric: {name: x, goal: up}\n")
    assert [message.split(" ")[0] for message, _ in errors_of(text)] == [
        "s.yaml:4:",
        "s.yaml:5:",
        "s.yaml:6:",
    ]
