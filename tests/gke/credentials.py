"""Who may speak to the cloud of the tests: its certificate, a service account, and its tokens."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

ACCOUNT = "deployer-tests@{project}.iam.gserviceaccount.com"


@cache
def make_authority() -> trustme.CA:
    """Make one authority per process: gRPC reads its trusted certificates once and for all."""
    return trustme.CA()


@cache
def _make_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def _certify_key() -> bytes:
    """Return the certificate of the account's key, as Google publishes it: PEM."""
    key, name = _make_key(), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True)
class Account:
    """A service account: the file that a user downloads, and the check of what it signs."""

    project: str

    @property
    def email(self) -> str:
        """Return the account's name."""
        return ACCOUNT.format(project=self.project)

    def write_json(self, path: Path, token_uri: str) -> None:
        """Write the file for GOOGLE_APPLICATION_CREDENTIALS."""
        key = _make_key().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        content = {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": self.email,
            "client_id": "100000000000000000000",
            "token_uri": token_uri,
        }
        path.write_text(json.dumps(content))
        path.chmod(0o600)

    def signed(self, token: str) -> bool:
        """Tell whether a JWT is this account's and still valid; the clients sign their own."""
        try:
            claims: dict[str, object] = jwt.decode(token, certs=_certify_key())  # type: ignore[no-untyped-call]
        except Exception:  # whatever is wrong with it, it opens nothing
            return False
        return bool(claims.get("iss") == self.email)
