"""A folder of an S3 object store, as far as a run's outputs need it: put, list, delete.

Standard library only, since a trainer's image need have no client. Requests are signed as in
https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence
from xml.etree import ElementTree

from ..network import is_loopback
from ..settings import ENDPOINT_VARIABLE

PART_BYTES = 64 << 20  # of an upload in parts, of which there may be 10,000
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60.0
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 10.0
DEFAULT_REGION = "us-east-1"
# By which of these the credentials are known; the first are those of `outputs.secret` alone.
KEY_IDS = ("DEPLOYER_OUTPUT_KEY_ID", "AWS_ACCESS_KEY_ID")
KEYS = ("DEPLOYER_OUTPUT_KEY", "AWS_SECRET_ACCESS_KEY")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
ENDPOINTS = (ENDPOINT_VARIABLE, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Refused(Exception):
    """The store refused, or did not answer as long as it was asked."""


class Part(NamedTuple):
    """Some bytes of a file."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True)
class ObjectFolder:
    """The objects of a bucket below a prefix that ends with a slash, and how to reach them."""

    endpoint: str
    bucket: str
    prefix: str
    key_id: str
    key: str = field(repr=False)
    token: str = field(default="", repr=False)
    region: str = DEFAULT_REGION
    deadline: float = 0.0
    part_bytes: int = PART_BYTES

    def put(self, name: str, path: str) -> None:
        """Send a file, with its SHA-256 among the object's metadata; in parts if it is large."""
        size = os.path.getsize(path)
        whole = Part(path, 0, size)
        metadata = {"x-amz-meta-sha256": hash_part(whole)}
        if size <= self.part_bytes:
            self._ask("PUT", name, {}, metadata, whole)
            return
        begun = self._ask("POST", name, {"uploads": ""}, metadata)
        upload = _find_text(ElementTree.fromstring(begun), "UploadId")
        try:
            self._send_parts(name, upload, whole)
        except BaseException:
            self._abort(f"{self.prefix}{name}", upload)
            raise

    def list_names(self) -> List[str]:
        """Return what objects there are, by their names below the prefix."""
        found: List[str] = []
        query = {"list-type": "2", "prefix": self.prefix}
        while True:
            page = ElementTree.fromstring(self._ask("GET", None, query, {}))
            keys = [one.text or "" for one in page.iter() if one.tag.endswith("}Key")]
            found += [key[len(self.prefix) :] for key in keys]
            if _find_text(page, "IsTruncated") != "true":
                return found
            query["continuation-token"] = _find_text(page, "NextContinuationToken")

    def delete(self, name: str) -> None:
        """Delete an object; one that is not there is no error."""
        self._ask("DELETE", name, {}, {})

    def abort_uploads(self) -> None:
        """Delete the parts that killed attempts have left below the prefix; S3 bills for them.

        Does nothing where that is not permitted.
        """
        query = {"uploads": "", "prefix": self.prefix}
        with contextlib.suppress(Refused):
            while True:
                page = ElementTree.fromstring(self._ask("GET", None, query, {}))
                for one in page.iter():
                    # Some stores ignore the prefix.
                    key = _find_text(one, "Key") if one.tag.split("}")[-1] == "Upload" else ""
                    if key.startswith(self.prefix) and key:
                        self._abort(key, _find_text(one, "UploadId"))
                if _find_text(page, "IsTruncated") != "true":
                    return
                query["key-marker"] = _find_text(page, "NextKeyMarker")
                query["upload-id-marker"] = _find_text(page, "NextUploadIdMarker")

    def address(self, name: str) -> str:
        """Name an object for messages."""
        return f"s3://{self.bucket}/{self.prefix}{name}"

    def _send_parts(self, name: str, upload: str, whole: Part) -> None:
        listed = ""
        for number, offset in enumerate(range(0, whole.size, self.part_bytes), start=1):
            part = Part(whole.path, offset, min(self.part_bytes, whole.size - offset))
            query = {"partNumber": str(number), "uploadId": upload}
            tag = self._ask("PUT", name, query, {}, part, header="ETag")
            listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = self._ask("POST", name, {"uploadId": upload}, {}, body=body)
        if b"<Error>" in answer:  # which S3 may say with status 200
            raise Refused(f"{self.address(name)}: {_read_message(answer)}")

    def _abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(Refused):
            self._ask("DELETE", key[len(self.prefix) :], {"uploadId": upload}, {})

    def _ask(
        self,
        method: str,
        name: Optional[str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        part: Optional[Part] = None,
        body: bytes = b"",
        header: str = "",
    ) -> Any:
        """Send a request until it is answered; returns the body of the answer, or a header."""
        digest = hash_part(part) if part else hashlib.sha256(body).hexdigest()
        wait = FIRST_WAIT_SECONDS
        key = None if name is None else f"{self.prefix}{name}"
        while True:
            request = self._sign(method, key, query, headers, digest)
            request.data = _open_part(part) if part else body or None
            size = part.size if part else len(body)
            request.add_header("Content-Length", str(size))
            problem, passing = "", True
            try:
                with self._open(request) as answer:
                    return answer.headers[header] if header else answer.read()
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code} {_read_message(error.read())}"
                passing = error.code in (408, 429) or error.code >= 500
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", error)) or type(error).__name__
            if not passing or time.time() + wait > self.deadline:
                raise Refused(f"{self.address(name or '')}: {problem}")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _open(self, request: urllib.request.Request) -> Any:
        # A proxy cannot reach what listens on this machine alone.
        near = is_loopback(urllib.parse.urlsplit(request.full_url).hostname or "")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({} if near else None))
        return opener.open(request, timeout=TIMEOUT_SECONDS)

    def _sign(
        self,
        method: str,
        key: Optional[str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        digest: str,
    ) -> urllib.request.Request:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        base = urllib.parse.urlsplit(self.endpoint)
        path = f"{base.path}/{self.bucket}" + ("" if key is None else f"/{_quote(key, '/')}")
        asked = "&".join(f"{_quote(k)}={_quote(v)}" for k, v in sorted(query.items()))
        signed: Dict[str, str] = {"host": base.netloc, "x-amz-date": now, **headers}
        signed["x-amz-content-sha256"] = digest
        if self.token:
            signed["x-amz-security-token"] = self.token
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = "\n".join((method, path, asked, lines, names, digest))
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}"
        secret = f"AWS4{self.key}".encode()
        for step in scope.split("/"):
            secret = hmac.new(secret, step.encode(), hashlib.sha256).digest()
        signature = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
        url = f"{base.scheme}://{base.netloc}{path}" + (f"?{asked}" if asked else "")
        request = urllib.request.Request(url, headers=signed, method=method)
        credential = f"Credential={self.key_id}/{scope}"
        said = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
        request.add_unredirected_header("Authorization", said)
        return request


def open_folder(url: str, environment: Mapping[str, str], deadline: float) -> ObjectFolder:
    """Return the folder at s3://BUCKET/FOLDER; raises Refused if there are no credentials."""
    bucket, _, folder = url[len("s3://") :].partition("/")
    key_id = _first(environment, KEY_IDS)
    key = _first(environment, KEYS)
    if not key_id or not key:
        raise Refused(f"{url}: there are no credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY")
    region = _first(environment, REGIONS) or DEFAULT_REGION
    endpoint = _first(environment, ENDPOINTS) or f"https://s3.{region}.amazonaws.com"
    own = environment.get(KEY_IDS[0])
    return ObjectFolder(
        endpoint=endpoint.rstrip("/"),
        bucket=bucket,
        prefix=f"{folder.strip('/')}/" if folder.strip("/") else "",
        key_id=key_id,
        key=key,
        token="" if own else environment.get("AWS_SESSION_TOKEN", ""),
        region=region,
        deadline=deadline,
    )


def hash_part(part: Part) -> str:
    """Return the SHA-256 of some bytes of a file."""
    digest = hashlib.sha256()
    for chunk in _open_part(part):
        digest.update(chunk)
    return digest.hexdigest()


def _open_part(part: Part) -> Any:
    """Yield the bytes of a part."""
    left = part.size
    with open(part.path, "rb") as file:
        file.seek(part.offset)
        while left:
            chunk = file.read(min(CHUNK_BYTES, left))
            if not chunk:
                raise Refused(f"{part.path} has become shorter")
            left -= len(chunk)
            yield chunk


def _quote(text: str, safe: str = "") -> str:
    return urllib.parse.quote(text, safe=f"{safe}-_.~")


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _find_text(tree: Any, name: str) -> str:
    return next((one.text or "" for one in tree.iter() if one.tag.split("}")[-1] == name), "")


def _read_message(body: bytes) -> str:
    try:
        tree = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return ""
    return f"{_find_text(tree, 'Code')}: {_find_text(tree, 'Message')}"[:300]
