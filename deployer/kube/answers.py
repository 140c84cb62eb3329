"""Reads what a Kubernetes server answers: its objects, and its clock."""

from __future__ import annotations

import gc
import json
import time
from email.utils import parsedate_to_datetime
from typing import Any

from deployer.kube.kinds import Manifest


def parse_answer(data: bytes) -> Manifest:
    """Parse an answer, without who set which field: half of every object, and nothing for us.

    The collector pauses, since it would walk through a thousand pods over and over.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError("the answer is not an object")
        for item in content.get("items") or ():
            item["metadata"].pop("managedFields", None)
        return content
    finally:
        if collects:
            gc.enable()


def read_ahead_seconds(answer: Any, known: float) -> float:
    """Return how far the server's clock is ahead of ours; `known` if it does not say."""
    said = getattr(answer, "headers", {}).get("Date")
    return parsedate_to_datetime(said).timestamp() - time.time() if said else known
