"""The client of Google Cloud: requests, messages, operations, and the translation of errors.

It must not decide what is made or removed.
"""

import os

# Google's libraries read it on import. gRPC's own lines on stderr would repeat our messages.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Outside Google Cloud, the metadata server's address may drop packets: wait 3 s instead of 12 s.
os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
