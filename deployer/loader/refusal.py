"""What the loader refuses, as its client reads it."""

import errno
from typing import Dict, Tuple

# What the system says of a file, as a status of HTTP and a word to decide by.
SYSTEM: Dict[int, Tuple[int, str]] = {
    errno.ENOENT: (404, "missing"),
    errno.ENOTDIR: (409, "in-the-way"),
    errno.EISDIR: (409, "in-the-way"),
    errno.ENOTEMPTY: (409, "in-the-way"),
    errno.EACCES: (403, "forbidden"),
    errno.EPERM: (403, "forbidden"),
    errno.EROFS: (403, "forbidden"),
    errno.ENAMETOOLONG: (400, "bad-path"),
    errno.ENOSPC: (507, "full"),
    errno.EDQUOT: (507, "full"),
}


class Refusal(Exception):
    """A request that is answered with no: a status of HTTP, a word to decide by, a sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def refuse_error(error: OSError) -> Refusal:
    """Return what a failure of the file system means to the client."""
    status, code = SYSTEM.get(error.errno or 0, (500, "failed"))
    return Refusal(status, code, error.strerror or str(error))
