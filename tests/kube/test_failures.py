"""What a server's answer is translated to."""

from __future__ import annotations

import json

import pytest
from kubernetes.client.exceptions import ApiException  # noqa: TID251 - what the client raises

from deployer.kube.failures import ApiCall, translate_error
from deployer.kube.objects import POD


def test_a_webhook_that_does_not_answer_is_looked_for_by_its_configuration() -> None:
    error = ApiException(status=500)
    said = 'Internal error occurred: failed calling webhook "x.example": connection refused'
    error.body = json.dumps({"message": said, "reason": "InternalError"})
    attempt = ApiCall("create", POD, "a", "research", "site", "https://127.0.0.1:9")
    assert translate_error(error, attempt).hint == (
        "ask an administrator: kubectl get "
        "validatingwebhookconfigurations,mutatingwebhookconfigurations --context site"
    )


MISSING = "cannot get Pod a in namespace research: the server has no kind Pod in v1"


@pytest.mark.parametrize(
    ("body", "said", "reason"),
    [
        ("404 page not found", MISSING, ""),
        (
            {"message": "the server could not find the requested resource", "reason": "NotFound"},
            MISSING,
            "",
        ),
        (
            {"message": 'pods "a" not found', "reason": "NotFound"},
            'cannot get Pod a in namespace research: pods "a" not found',
            "NotFound",
        ),
        (
            {"message": 'clusters "c-1" not found'},
            'cannot get Pod a in namespace research: clusters "c-1" not found',
            "",
        ),
    ],
    ids=["page", "kind", "object", "proxy"],
)
def test_a_kind_that_is_missing_is_told_from_an_object(
    body: object, said: str, reason: str
) -> None:
    error = ApiException(status=404, reason="Not Found")
    error.body = body if isinstance(body, str) else json.dumps(body)
    attempt = ApiCall("get", POD, "a", "research", "site", "https://127.0.0.1:9")
    told = translate_error(error, attempt)
    assert (told.message, told.reason) == (said, reason)
