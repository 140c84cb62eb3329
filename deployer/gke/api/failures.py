"""Translates every failure of a call to Google Cloud to a `CloudError` with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.api_core import exceptions as api
from google.auth.exceptions import TransportError
from google.rpc import code_pb2

from deployer.errors import CloudError
from deployer.gke.api.capacity import QUOTA, STOCKOUT, read_quotas
from deployer.gke.api.remedies import (
    CALLS,
    CONDITIONS,
    ELSEWHERE,
    REASONS,
    RIGHTS,
    ROLES,
    SENTENCES,
    UP,
)
from deployer.gke.specification.parts import region_of

_SECRETS = re.compile(
    r"ya29\.[\w.-]+|eyJ[\w-]+\.[\w.-]+|(?<=Bearer )\S+|-----BEGIN[^-]+-----[\s\S]*?(-----END|$)"
)


@dataclass(frozen=True)
class Attempt:
    """What was tried on what: for an error's first line and the words of its hint."""

    words: str
    project: str
    location: str = ""
    name: str = ""
    api: str = "container.googleapis.com"

    @property
    def waiting(self) -> str:
        """Say what is waited for."""
        return f"Google Cloud ({self.words.removeprefix('cannot ')})"

    def hint(self, template: str, sentence: str) -> str:
        """Fill in a hint: a command, an address or an edit."""
        quotas = " and ".join(read_quotas(sentence)) or "quota"
        if self.location and "ALL_REGIONS" not in quotas:
            quotas = f"{quotas} in {region_of(self.location)}"
        return template.format(
            project=self.project or "PROJECT",
            location=self.location or "LOCATION",
            name=self.name,
            api=self.api,
            role=ROLES[self.api],
            quotas=quotas,
        )


def translate_error(error: BaseException, attempt: Attempt) -> CloudError:
    """Return what the user is told of a failed call; Google's own sentence stays as it is."""
    kinds = type(error).__mro__
    if getattr(error, "retryable", False):  # the token endpoint is away, the credentials are good
        kinds = (TransportError,)
    row = next(CALLS[kind] for kind in kinds if kind in CALLS)
    sentence = _read_sentence(error) or row.said
    reason, hint = _refine(sentence, _read_reason(error), row.reason, row.hint)
    return CloudError(f"{attempt.words}: {sentence}", attempt.hint(hint, sentence), reason)


def build_failure(
    attempt: Attempt,
    code: int,
    sentence: str,
    conditions: Iterable[tuple[str, str]] = (),
    *,
    otherwise: str = UP,
) -> CloudError:
    """Return what the user is told of an operation that failed.

    `code` is google.rpc's, `conditions` are names of google.container.v1.StatusCondition.Code with
    their sentences. `otherwise` is the hint where neither knows a better one.
    """
    known = tuple(conditions)
    said = scrub(sentence or next((text for _, text in known if text), "") or "it failed")
    # Capacity is what can be tried elsewhere, so it counts before what else is said.
    name = next((one for one, _ in sorted(known, key=_is_minor) if one != "UNKNOWN"), "")
    if name:
        return CloudError(
            f"{attempt.words}: {said}", attempt.hint(CONDITIONS.get(name, otherwise), said), name
        )
    usual = code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"
    if usual == "RESOURCE_EXHAUSTED":  # of an operation, unlike of a call, it is machines
        usual, fallback = STOCKOUT, ELSEWHERE
    else:
        fallback = RIGHTS if usual == "PERMISSION_DENIED" else otherwise
    reason, hint = _refine(said, "", usual, fallback)
    return CloudError(f"{attempt.words}: {said}", attempt.hint(hint, said), reason)


def scrub(text: str) -> str:
    """Return a text without tokens and keys, in one line."""
    return " ".join(_SECRETS.sub("[secret]", text).split())


def _is_minor(condition: tuple[str, str]) -> bool:
    return condition[0] not in (STOCKOUT, QUOTA)


def _refine(sentence: str, told: str, reason: str, hint: str) -> tuple[str, str]:
    """Return reason and hint by Google's words, else as they are."""
    if told in REASONS:
        return told, REASONS[told]
    found = next((row for row in SENTENCES if row[0].search(sentence)), None)
    return (found[1], found[2]) if found else (reason, hint)


def _read_reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or "") if _is_answer(error) else ""


def _read_sentence(error: BaseException) -> str:
    """Return Google's sentence, with the zones that it names beside it."""
    if not _is_answer(error):
        first = error.args[0] if error.args else ""
        # Of a connection that failed: the cause without the address, which is Google's.
        cause = getattr(first, "reason", first)
        words = getattr(cause, "args", ())[-1:] or (cause,)
        return scrub(str(words[0]).rpartition("): ")[2])
    answer: Any = error
    sentence = scrub(str(answer.message or ""))
    zones = str((answer.metadata or {}).get("zonesAvailable") or "")
    return f"{sentence} (zonesAvailable: {zones})" if zones else sentence


def _is_answer(error: BaseException) -> bool:
    return isinstance(error, api.GoogleAPICallError)
