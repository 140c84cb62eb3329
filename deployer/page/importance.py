"""The document of parameter importance; pure."""

from __future__ import annotations

from typing import Any

from deployer.analysis.importance import Importance, build_importance
from deployer.errors import DeployerError
from deployer.sweeps.results import Results


def build_importance_document(results: Results) -> dict[str, Any]:
    """Return how much each parameter matters; `missing` says why it is not known."""
    if results.metric is None:
        return {"missing": "the sweep has no metric"}
    try:
        return _describe(build_importance(results.rows, results.metric))
    except DeployerError as error:
        return {"missing": f"{error.message}: {error.hint}"}


def _describe(found: Importance) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "sentence": found.sentence(),
        "runs": found.runs,
        "stopped_early": found.stopped_early,
        "left_out": found.left_out,
        "parameters": [
            {"name": one.name, "importance": one.importance, "correlation": one.correlation}
            for one in found.parameters
        ],
    }
