"""Serves the ClusterManager over TLS to the unmodified client."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import empty_pb2
from grpc_status import rpc_status  # type: ignore[import-untyped]

from tests.gke.cloud_clusters import METHODS, SERVICE, Clusters
from tests.gke.cloud_faults import Fault, unauthenticated
from tests.gke.cloud_gate import Call, Gate
from tests.gke.credentials import make_authority

# More than one client may be left waiting for an answer that never comes.
THREADS = 8


def serve_clusters(
    gate: Gate, clusters: Clusters, authorised: Callable[[str], bool]
) -> tuple[grpc.Server, int]:
    """Start the server and return it with its port on localhost."""
    server = grpc.server(ThreadPoolExecutor(THREADS))
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            _answer(name, gate, clusters, authorised),
            request_deserializer=request.deserialize,
            response_serializer=response.serialize if response else _write_empty,
        )
        for name, (request, response) in METHODS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    certificate = make_authority().issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    return server, port


def _write_empty(_: Any) -> bytes:
    return bytes(empty_pb2.Empty().SerializeToString())


def _answer(
    name: str, gate: Gate, clusters: Clusters, authorised: Callable[[str], bool]
) -> Callable[[Any, grpc.ServicerContext], Any]:
    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        metadata = dict(context.invocation_metadata())
        port = int(context.peer().rsplit(":", 1)[1])
        try:
            if not authorised(str(metadata.get("authorization", ""))):
                raise unauthenticated()
            call = Call(name, _name_path(name, request))
            return gate.enter(call, port, lambda fault: clusters.answer(name, request, fault))
        except Fault as fault:
            return context.abort_with_status(rpc_status.to_status(fault.as_status))

    return answer


def _name_path(name: str, request: Any) -> str:
    """Return what a call is about; of something to be made, what it will be called."""
    path = str(getattr(request, "parent", "") or request.name)
    if name == "CreateCluster":
        return f"{path}/clusters/{request.cluster.name}"
    if name == "CreateNodePool":
        return f"{path}/nodePools/{request.node_pool.name}"
    return path
