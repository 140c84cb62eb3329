"""The store at an address: s3:// and gs://."""

from __future__ import annotations

from collections.abc import Mapping

from deployer.data.store import Store


def open_address(
    url: str, endpoint_url: str | None = None, credentials: Mapping[str, str] | None = None
) -> Store:
    """Return the store at an address, without contacting it; raises DataError.

    `credentials` are by the names of Amazon's variables; for gs:// one of them is Google's JSON.
    """
    if url.startswith("gs://"):
        from deployer.data.gcs_store import GcsStore

        return GcsStore(url, endpoint_url, credentials)
    from deployer.data.s3_store import ObjectStore

    return ObjectStore(url, endpoint_url, credentials)
