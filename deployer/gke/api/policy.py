"""Which permissions a project's IAM policy gives a principal; it is read and never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.api_core import exceptions
from google.auth.transport.requests import AuthorizedSession

from deployer.gke.api.client import Gke
from deployer.gke.api.failures import Attempt
from deployer.gke.api.patience import READ_SECONDS, bound_session

PROJECTS, ROLES = "cloudresourcemanager.googleapis.com", "iam.googleapis.com"
# gcloud's own variables.
OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
OVERRIDES = {PROJECTS: f"{OVERRIDE}CLOUDRESOURCEMANAGER", ROLES: f"{OVERRIDE}IAM"}


def list_permissions(gke: Gke, principal_end: str, condition: str) -> frozenset[str]:
    """Return what the policy gives the principal whose name ends so, under this condition or none.

    Groups and folders are not looked through. Raises CloudError, also without the right to read.
    """
    options = {"options": {"requestedPolicyVersion": 3}}  # with conditions
    policy = _ask(gke, "POST", PROJECTS, f"projects/{gke.project}:getIamPolicy", options)
    roles = {
        binding["role"]
        for binding in policy.get("bindings") or ()
        if any(member.endswith(principal_end) for member in binding.get("members") or ())
        and (binding.get("condition") or {}).get("expression", condition) == condition
    }
    found = [_ask(gke, "GET", ROLES, role) for role in sorted(roles)]
    return frozenset(
        permission
        for role in found
        if not role.get("deleted")
        for permission in role.get("includedPermissions") or ()
    )


def _ask(
    gke: Gke, method: str, api: str, path: str, body: Mapping[str, object] | None = None
) -> Any:
    base = gke.environment.get(OVERRIDES[api]) or f"https://{api}/"
    session: Any = AuthorizedSession(gke.credentials)
    bound_session(session)

    def send() -> Any:
        answer = session.request(method, f"{base}v1/{path}", json=body, timeout=READ_SECONDS)
        content = answer.json() if "json" in answer.headers.get("Content-Type", "") else {}
        if not answer.ok:
            said = (content.get("error") or {}).get("message") or answer.reason
            build: Any = exceptions.from_http_status
            raise build(answer.status_code, said)
        return content

    return gke.read(send, Attempt(f"cannot read {path}", gke.project, api=api))
