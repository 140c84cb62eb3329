"""The section `outputs:` of deployer.yaml: where runs' models and other results are kept; pure."""

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, refuse
from deployer.config.sections.data import check_endpoint, check_url
from deployer.config.sections.kubernetes_parts import ObjectName, SecretKey

# As agent/settings.py has them, which is above; a test holds the two together.
KEEP_VARIABLE, ENDPOINT_VARIABLE = "DEPLOYER_OUTPUT_KEEP", "DEPLOYER_OUTPUT_ENDPOINT"
# By which runs know the credentials, and the key of the Secret that each of them is.
SECRET_KEYS = {
    "DEPLOYER_OUTPUT_KEY_ID": "AWS_ACCESS_KEY_ID",
    "DEPLOYER_OUTPUT_KEY": "AWS_SECRET_ACCESS_KEY",
}


def _check_s3(value: str) -> str:
    url = check_url(value)
    if not url.startswith("s3://"):
        hint = "write s3://BUCKET/FOLDER; Google's has endpoint_url: https://storage.googleapis.com"
        refuse("is not an S3 address", hint)
    return url


@dataclass(frozen=True, kw_only=True, config=STRICT)
class OutputsConfig:
    """An object store for what runs write to DEPLOYER_OUTPUT_DIR; without one, see `url`."""

    url: Annotated[Text, AfterValidator(_check_s3)] | None = None
    """s3://BUCKET/FOLDER. Default: on this machine the state folder; on a cluster the volume
    `checkpoints` or, without it, artifacts of the runs.
    """

    endpoint_url: Annotated[Text, AfterValidator(check_endpoint)] | None = None
    """The object store's server; default: Amazon's."""

    secret: ObjectName | None = None
    """The cluster's Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Default: agents
    have them in their environment.
    """

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return the variables that tell runs where to send their outputs; none without `url`."""
        found = {KEEP_VARIABLE: self.url, ENDPOINT_VARIABLE: self.endpoint_url}
        return tuple((name, value) for name, value in found.items() if value)

    @property
    def secrets(self) -> dict[str, SecretKey]:
        """Return the variables with credentials, from the Secret."""
        if self.secret is None:
            return {}
        return {name: SecretKey(name=self.secret, key=key) for name, key in SECRET_KEYS.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("endpoint_url", "secret") if getattr(self, name) is not None]
        if given and self.url is None:
            said = f"{given[0]}: needs url, which is missing"
            hint = "url: s3://BUCKET/FOLDER"
            refuse(said, hint)
        return self
