"""The client of Google Cloud: requests, messages, operations, and what its refusals mean.

It must not decide what is made or removed.
"""

import os

# Read by Google's libraries when they are imported. gRPC's own lines on stderr repeat, in its
# words, what we say in ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Outside of Google's cloud, the metadata server's address may drop packets: 3 s instead of 12 s.
os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
