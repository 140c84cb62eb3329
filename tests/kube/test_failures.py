"""What a server's answer is translated to."""

from __future__ import annotations

import json

from kubernetes.client.exceptions import ApiException  # noqa: TID251 - what the client raises

from deployer.kube.failures import Attempt, translate_error
from deployer.kube.kinds import POD


def test_a_webhook_that_does_not_answer_is_looked_for_by_its_configuration() -> None:
    error = ApiException(status=500)
    said = 'Internal error occurred: failed calling webhook "x.example": connection refused'
    error.body = json.dumps({"message": said, "reason": "InternalError"})
    attempt = Attempt("create", POD, "a", "research", "site", "https://127.0.0.1:9")
    assert translate_error(error, attempt).hint == (
        "ask an administrator: kubectl get "
        "validatingwebhookconfigurations,mutatingwebhookconfigurations --context site"
    )
