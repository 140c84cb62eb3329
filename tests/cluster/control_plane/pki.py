"""The certificates of one cluster: an authority, its servers, and the kubeconfig of every user."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import trustme

NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
NOBODY = ("client.invalid",)  # Kubernetes refuses a certificate without any name


@dataclass(frozen=True)
class Pki:
    """An authority and the folder that its files lie in."""

    folder: Path
    authority: trustme.CA

    @property
    def authority_file(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, file: str, user: str, group: str = "", names: tuple[str, ...] = ()) -> None:
        """Write `file.crt` and `file.key` for a user of a group, or for a server of these names."""
        leaf = self._issue(user, group, names or NOBODY)
        leaf.cert_chain_pems[0].write_to_path(self.folder / f"{file}.crt")
        leaf.private_key_pem.write_to_path(self.folder / f"{file}.key")

    def write_kubeconfig(
        self, file: Path, server: str, user: str, group: str = "", namespace: str = "default"
    ) -> Path:
        """Issue a client certificate and write a kubeconfig that needs no other file."""
        leaf = self._issue(user, group, NOBODY)
        credentials = {
            "client-certificate-data": _base64(leaf.cert_chain_pems[0]),
            "client-key-data": _base64(leaf.private_key_pem),
        }
        cluster = {"server": server, "certificate-authority-data": _base64(self.authority.cert_pem)}
        document = {  # JSON is YAML
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [
                {
                    "name": "test",
                    "context": {"cluster": "test", "user": user, "namespace": namespace},
                }
            ],
            "current-context": "test",
        }
        file.touch(0o600)
        file.write_text(json.dumps(document, indent=1))
        return file

    def _issue(self, user: str, group: str, names: tuple[str, ...]) -> trustme.LeafCert:
        return self.authority.issue_cert(*names, common_name=user, organization_name=group or None)


def make_pki(folder: Path, addresses: tuple[str, ...]) -> Pki:
    """Make the authority, the API server's certificate for these addresses, and its keys."""
    folder.mkdir(mode=0o700)
    pki = Pki(folder, trustme.CA())
    pki.authority.cert_pem.write_to_path(pki.authority_file)
    pki.authority.private_key_pem.write_to_path(folder / "ca.key")
    pki.issue("apiserver", "kube-apiserver", names=(*NAMES, "127.0.0.1", *addresses))
    pki.issue("kubelet-client", "kubelet-client", "system:masters")
    pki.issue("service-accounts", "service-accounts")  # only its key is used
    return pki


def load_pki(folder: Path) -> Pki:
    """Load the authority of a cluster that another test process started."""
    return Pki(
        folder,
        trustme.CA.from_pem((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes()),
    )


def _base64(pem: trustme.Blob) -> str:
    return base64.b64encode(pem.bytes()).decode()
