"""Calls → HTTP/1.1 over the sidecar's Unix socket, TCP or TLS, one connection a request, from any thread.

Every request can be repeated without doing its work twice (a job by its `Idempotency-Key`), so it is: after a lost connection
and after 429 and 503, until `patience` seconds have brought nothing. Waiting is a blocked `recv`, without the GIL, and each
has an end: `timeout` for one read or write, a lowest rate for a request and for its answer, and the caller's `deadline`, a time
of `time.monotonic()`, for all of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import math
import os
import random
import socket
import ssl
import stat
import struct
import time
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from .errors import Cancelled, JobFailed, KilnError, RequestProblem, SidecarUnavailable, TimedOut

Body = Sequence[Union[bytes, memoryview]]
_T = TypeVar("_T")
#: The sidecar sends a comment each 15 s: a stream that is silent for longer is dead.
_SILENCE = 45.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_CHUNK = 1 << 20
#: Bytes per second that a request and an answer make at least, beyond the one `timeout` that they have anyway.
_SLOWEST = 1 << 20
#: Bytes of an answer that is JSON, of a line of a stream, and of an event.
_LONGEST_JSON, _LONGEST_LINE, _LONGEST_EVENT = 64 << 20, 1 << 20, 4 << 20
#: Bytes of a file that does not say how long it is.
_LONGEST_FILE = 8 << 30
#: Whether this system tells who listens at a Unix socket, as Linux does.
HAS_UNIX = hasattr(socket, "AF_UNIX") and hasattr(socket, "SO_PEERCRED")


@dataclasses.dataclass(frozen=True)
class Job:
    """A job as the sidecar shows it; `raw` has all of it."""

    raw: Dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.raw["id"])

    @property
    def state(self) -> str:
        """`queued`, `preparing`, `baking`, `encoding`, `retrying`, `succeeded`, `failed` or `cancelled`."""
        return str(self.raw["state"])

    @property
    def is_over(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")

    @property
    def progress(self) -> float:
        return float(self.raw.get("progress") or 0.0)

    @property
    def artifacts(self) -> Dict[str, Dict[str, Any]]:
        """By name."""
        return {artifact["name"]: artifact for artifact in self.raw.get("artifacts") or []}

    def check(self) -> "Job":
        """Itself, if it succeeded; raises what it ended with otherwise."""
        if self.state == "cancelled":
            raise Cancelled(self.id)
        if self.state == "failed":
            raise JobFailed(self.id, self.raw.get("error") or {})
        return self


@dataclasses.dataclass(frozen=True)
class Event:
    """One event of a job: `state`, `progress`, `log` or `done`."""

    id: int
    kind: str
    data: Dict[str, Any]


class Client:
    """See the head of this module. `address` is the path of a socket, or `http://` or `https://` with host, port and, behind a
    proxy, the path before `/v1`; `token` is what is shown there. `queue` and `store` are those of a fleet, in place of an address
    (`credentials` and `tenant` as for `kiln submit`): a sidecar of this process passes its jobs on. `timeout` is for one read or write; `revive` is called with
    the deadline where nobody listens, before each try: who was started may be killed again, or end unheard of while it is
    asked for."""

    def __init__(
        self,
        address: Union[str, "os.PathLike[str]", None] = None,
        token: Optional[str] = None,
        *,
        queue: Optional[str] = None,
        store: Optional[str] = None,
        credentials: Optional[str] = None,
        tenant: Optional[str] = None,
        timeout: float = 60.0,
        patience: float = 60.0,
        revive: Optional[Callable[[Optional[float]], None]] = None,
    ) -> None:
        if address is None:
            if not (queue and store):
                raise ValueError("a sidecar is named by its address, and a fleet by queue and store")
            from . import sidecar

            passing = sidecar.front(queue, store, credentials, tenant)
            address, revive = passing.socket, passing.ensure
        elif queue or store:
            raise ValueError("an address names a sidecar, and queue and store a fleet: give one of them")
        self.address = os.fspath(address)
        self.timeout = timeout
        self.patience = patience
        self._revive = revive
        self._url = _url(self.address) if "://" in self.address else None
        # Read from a file, it ends in a line break.
        self._token = (token or "").strip()
        if not self._token.isascii() or not self._token.isprintable():
            raise ValueError("the token is not one line of ASCII")
        self._tls = ssl.create_default_context() if self._url and self._url.scheme == "https" else None
        if self._tls:
            self._tls.sslsocket_class = _TlsSocket

    def submit(
        self,
        spec: Mapping[str, Any],
        arrays: Optional[Sequence[memoryview]] = None,
        *,
        key: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Job:
        """A new job; with `arrays` (see `safetensors.encode`) as its inputs, or with inputs that `spec` names."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        text = json.dumps(dict(spec), separators=(",", ":"))
        if arrays is None:
            headers["Content-Type"] = "application/json"
            _, job = self._request("POST", "/v1/jobs", _job, headers, [text.encode()], deadline=deadline)
        else:
            headers["Content-Type"] = "application/safetensors"
            path = "/v1/jobs?" + urllib.parse.urlencode({"spec": text})
            _, job = self._request("POST", path, _job, headers, arrays, deadline=deadline)
        return Job(job)

    def upload(self, data: bytes, *, deadline: Optional[float] = None) -> str:
        """Bytes that jobs may name by the digest that is returned; sent only where the sidecar has them not."""
        digest = hashlib.sha256(data).hexdigest()
        status, _ = self._request("HEAD", f"/v1/blobs/{digest}", also=(404,), deadline=deadline)
        if status == 404:
            headers = {"Content-Type": "application/octet-stream"}
            self._request("PUT", f"/v1/blobs/{digest}", headers=headers, body=[data], deadline=deadline)
        return digest

    def get(self, job_id: str, *, deadline: Optional[float] = None) -> Job:
        """The job as it is now."""
        return Job(self._request("GET", f"/v1/jobs/{_part(job_id)}", _job, deadline=deadline)[1])

    def list(self, state: Optional[str] = None) -> Iterator[Job]:
        """All jobs, newest first; of one state: queued, running, succeeded, failed or cancelled."""
        query = {"state": state} if state else {}
        while True:
            _, page = self._request("GET", "/v1/jobs?" + urllib.parse.urlencode(query), _page)
            yield from (Job(raw) for raw in page["jobs"])
            if not page.get("cursor"):
                return
            query["cursor"] = page["cursor"]

    def cancel(self, job_id: str, *, deadline: Optional[float] = None) -> Job:
        """Ends a job that is not over."""
        return Job(self._request("POST", f"/v1/jobs/{_part(job_id)}/cancel", _job, deadline=deadline)[1])

    def forget(self, job_id: str, *, deadline: Optional[float] = None) -> None:
        """Removes a job that is over, and its files."""
        self._request("DELETE", f"/v1/jobs/{_part(job_id)}", also=(404, 410), deadline=deadline)

    def events(self, job_id: str, *, after: int = 0, deadline: Optional[float] = None) -> Iterator[Event]:
        """What happens, as it happens, until `done`; a lost connection is taken up where it broke off."""
        path, last = f"/v1/jobs/{_part(job_id)}/events", after
        pauses = _Pauses(self, deadline)
        while True:
            headers = {"Accept": "text/event-stream"}
            if last:
                headers["Last-Event-ID"] = str(last)
            try:
                connection = self._connect(deadline, _SILENCE)
                try:
                    response = _exchange(connection, "GET", path, headers)
                    if response.status == 204:
                        return
                    self._refuse(connection, response)
                    connection.may_take(None)
                    pauses.answered()
                    for event in _parse(response):
                        pauses.reset()
                        last = max(last, event.id)
                        yield event
                        if event.kind == "done":
                            return
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                pauses.after(error)
            except _Later as later:
                pauses.after(later.problem, later.seconds)
            else:
                # It ended in order, and before the job: the sidecar leaves, and another may come.
                pauses.after(ConnectionResetError("the sidecar closed the stream"))

    def wait(
        self, job_id: str, timeout: Optional[float] = None, on_event: Optional[Callable[[Event], None]] = None
    ) -> Job:
        """The job, once it is over, however it ended (see `Job.check`)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            for event in self.events(job_id, deadline=deadline):
                if on_event is not None:
                    on_event(event)
            job = self.get(job_id, deadline=deadline)
            if job.is_over:
                return job

    def fetch(self, job: Union[Job, str], name: str = "model.glb", *, deadline: Optional[float] = None) -> bytes:
        """A file that the job made, checked against its digest."""
        job = self.get(job, deadline=deadline) if isinstance(job, str) else job
        artifact = job.artifacts.get(name)
        if artifact is None:
            made = ", ".join(job.artifacts) or "nothing"
            raise KeyError(f"job {job.id} ({job.state}) made {made}, and no {name}")

        def whole(data: bytes) -> bytes:
            if hashlib.sha256(data).hexdigest() != artifact["sha256"]:
                raise ConnectionError(f"{artifact['href']} arrived damaged")
            return data

        return self._request("GET", artifact["href"], whole, deadline=deadline, longest=_LONGEST_FILE)[1]

    def is_ready(self, *, deadline: Optional[float] = None) -> Tuple[bool, List[str]]:
        """Whether the sidecar has proven that it can bake, and if not, why not. Tries once."""
        connection = self._connect(deadline, self.timeout)
        try:
            response = _exchange(connection, "GET", "/readyz")
            state = _object(connection.body(response, _LONGEST_JSON) or b"{}")
        except (OSError, http.client.HTTPException) as error:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut("the time that the caller gave is over") from error
            raise self._silent(error) from error
        finally:
            connection.close()
        reasons = state.get("reasons")
        return response.status == 200, [str(reason) for reason in reasons] if isinstance(reasons, list) else []

    def capabilities(self) -> Dict[str, Any]:
        """Limits and formats of the sidecar."""
        return self._request("GET", "/v1/capabilities", _object)[1]

    def _request(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], _T] = bytes,  # type: ignore[assignment]
        headers: Optional[Mapping[str, str]] = None,
        body: Body = (),
        *,
        also: Sequence[int] = (),
        deadline: Optional[float] = None,
        longest: int = _LONGEST_JSON,
    ) -> Tuple[int, _T]:
        """Status and body, of 2xx and of those in `also`; repeated as the head of this module says. `read` makes of the body what
        the caller wants, and raises ConnectionError where it is not that."""
        pauses = _Pauses(self, deadline)
        while True:
            try:
                connection = self._connect(deadline, self.timeout)
                try:
                    response = _exchange(connection, method, path, headers or {}, body)
                    if response.status not in also:
                        self._refuse(connection, response)
                    return response.status, read(connection.body(response, longest))
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                pauses.after(error)
            except _Later as later:
                pauses.after(later.problem, later.seconds)

    def _connect(self, deadline: Optional[float], timeout: float) -> "_Connection":
        if deadline is not None and deadline <= time.monotonic():
            raise TimedOut("the time that the caller gave is over")
        return _Connection(self, timeout, deadline)

    def _silent(self, error: Exception) -> SidecarUnavailable:
        why = (isinstance(error, OSError) and error.strerror) or error
        return SidecarUnavailable(f"no sidecar answers at {self.address}: {why}")

    @staticmethod
    def _refuse(connection: "_Connection", response: http.client.HTTPResponse) -> None:
        """Raises what is not a success."""
        if 200 <= response.status < 300:
            return
        try:
            problem = _object(connection.body(response, _LONGEST_LINE))
        except (OSError, http.client.HTTPException):
            problem = {}
        error = RequestProblem(response.status, {"title": response.reason, **problem})
        if response.status in (429, 503) or error.code == "idempotency_in_flight":
            raise _Later(error, response.getheader("Retry-After"))
        raise error


class _Later(Exception):
    """To be asked again."""

    def __init__(self, problem: RequestProblem, after: Optional[str]) -> None:
        super().__init__(problem)
        self.problem = problem
        # A date is allowed, too; then the usual pause must do.
        self.seconds = float(after) if after and _is_number(after) else None


class _Pauses:
    """Between tries: longer and longer, until patience ends and the last error is told."""

    def __init__(self, client: Client, deadline: Optional[float]) -> None:
        self._client = client
        self._deadline = deadline
        self._revived = False
        self.reset()

    def reset(self) -> None:
        self._pause = _FIRST_PAUSE
        self._since: Optional[float] = None

    def answered(self) -> None:
        """Somebody is there, even if nothing has been learnt."""
        self._since = None

    def after(self, error: Exception, seconds: Optional[float] = None) -> None:
        if isinstance(error, KilnError) and not isinstance(error, RequestProblem):
            raise error
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            raise TimedOut("the time that the caller gave is over") from error
        revive = self._client._revive
        nobody = isinstance(error, (FileNotFoundError, ConnectionRefusedError, socket.gaierror))
        if nobody and revive:
            revive(self._deadline)
            if not self._revived:
                self._revived = True
                return
        self._since = self._since or now
        # Not all at the same moment.
        pause = seconds if seconds is not None else self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        # Where nobody listens, a deadline before the next try changes nothing about the reason.
        late = nobody and self._deadline is not None and now + pause >= self._deadline
        if late or now + pause > self._since + self._client.patience:
            if isinstance(error, RequestProblem):
                raise error
            raise self._client._silent(error) from error
        if self._deadline is not None:
            pause = min(pause, self._deadline - now)
        time.sleep(pause)


def folder_fault(path: str, own: bool = False) -> Optional[str]:
    """Why the folder of a socket may hold none: everybody may replace what lies there; with `own`, it is not this user's alone
    or root's. A folder that is not there has no fault."""
    try:
        state = os.lstat(os.path.dirname(path) or ".") if own else os.stat(os.path.dirname(path) or ".")
    except OSError:
        return None
    mode = stat.S_IMODE(state.st_mode)
    if own:
        if not stat.S_ISDIR(state.st_mode):
            return "is a link or no folder"
        if state.st_uid not in (0, os.getuid()):
            return f"is user {state.st_uid}'s, and not this user's"
        if mode & 0o022:
            return f"can be written by others (mode {mode:03o})"
    if mode & 0o002 and not mode & 0o1000:
        return f"lets everybody replace what lies there (mode {mode:03o})"
    return None


class _Socket(socket.socket):
    #: Seconds that a wait may take now.
    left: Callable[[], float]

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.settimeout(self.left())
        super().sendall(data, flags)

    def recv_into(self, *args: Any) -> int:
        self.settimeout(self.left())
        return super().recv_into(*args)


class _TlsSocket(ssl.SSLSocket):
    left: Callable[[], float]

    # `sendall` is a loop of this one.
    def send(self, data: Any, flags: int = 0) -> int:
        self.settimeout(self.left())
        return super().send(data, flags)

    def recv_into(self, *args: Any) -> int:
        self.settimeout(self.left())
        return super().recv_into(*args)


class _Connection(http.client.HTTPConnection):
    """For one request: to a Unix socket whose other end is this user's or root's, in a folder where not everybody may put another,
    or to a URL."""

    def __init__(self, client: Client, timeout: float, deadline: Optional[float]) -> None:
        self.client, url = client, client._url
        if client._tls:
            self.default_port = 443
        super().__init__((url and url.hostname) or "localhost", (url and url.port) or self.default_port, timeout=timeout)
        self.prefix = url.path.rstrip("/") if url else ""
        self._idle, self._deadline = timeout, deadline
        self._response: Optional[http.client.HTTPResponse] = None
        self.may_take(0)

    def connect(self) -> None:
        if self.client._url is None:
            self.sock = self._to_user(self.client.address)
            return
        error: OSError = OSError(f"{self.host} has no address")
        for family, kind, _, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                wire = self._open(family, kind, address)
                break
            except OSError as failed:
                error = failed
        else:
            raise error
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._sealed(wire, self.client._tls) if self.client._tls else wire

    def _open(self, family: int, kind: int, address: Any) -> _Socket:
        wire = _Socket(family, kind)
        wire.left = self._left
        try:
            wire.settimeout(self._left())
            wire.connect(address)
        except BaseException:
            wire.close()
            raise
        return wire

    def _sealed(self, wire: _Socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
        try:
            wire.settimeout(self._left())
            sealed = tls.wrap_socket(wire, server_hostname=self.host)
        except BaseException as error:
            wire.close()
            if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
                raise
            # A wrong certificate, or no TLS at all: it stays so.
            raise SidecarUnavailable(f"{self.client.address} is not trusted: {error}") from error
        assert isinstance(sealed, _TlsSocket)
        sealed.left = self._left
        return sealed

    def _to_user(self, path: str) -> _Socket:
        if not HAS_UNIX:
            raise SidecarUnavailable(f"{path} is a Unix socket, which only Linux has here: give the http:// URL of a sidecar, and its token")
        why = folder_fault(path)
        if why:
            raise SidecarUnavailable(f"{path} is not trusted: its folder {why}")
        wire = self._open(socket.AF_UNIX, socket.SOCK_STREAM, path)
        try:
            credentials = wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except BaseException:
            wire.close()
            raise
        _, uid, _ = struct.unpack("3i", credentials)
        if uid not in (0, os.getuid()):
            wire.close()
            raise SidecarUnavailable(f"{path} is served by user {uid}, who is not trusted")
        return wire

    def may_take(self, size: Optional[int]) -> None:
        """What begins now ends in time for so many bytes, whatever trickles in; without a size only the deadline ends it."""
        self._begun = time.monotonic()
        self._until(math.inf if size is None else size)

    def _until(self, size: float) -> None:
        self._ends = self._begun + self._idle + size / _SLOWEST
        if self._deadline is not None:
            self._ends = min(self._ends, self._deadline)

    def _left(self) -> float:
        """Each wait ends: after some idle seconds, and at the end of what began."""
        left = min(self._idle, self._ends - time.monotonic())
        if left <= 0:
            raise socket.timeout("timed out")
        return left

    def getresponse(self) -> http.client.HTTPResponse:
        self._response = super().getresponse()
        return self._response

    def body(self, response: http.client.HTTPResponse, longest: int) -> bytes:
        """All of it, and exactly as much as the head says."""
        if (response.length or 0) > longest:
            raise ConnectionError(f"an answer of {response.length} bytes is longer than {longest}")
        self.may_take(response.length or 0)
        parts, size = [], 0
        while True:
            try:
                part = response.read(_CHUNK)
            except ValueError as error:
                raise ConnectionError(f"a chunk of an answer has no length: {error}") from error
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > longest:
                raise ConnectionError(f"an answer goes on after {longest} bytes")
            if response.length is None:
                # Nobody says how much comes: what has come counts.
                self._until(size)
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)

    def close(self) -> None:
        super().close()
        if self._response is not None:
            self._response.close()


def _exchange(
    connection: _Connection, method: str, path: str, headers: Optional[Mapping[str, str]] = None, body: Body = ()
) -> http.client.HTTPResponse:
    size = sum(memoryview(part).nbytes for part in body)
    connection.may_take(size)
    connection.putrequest(method, connection.prefix + path, skip_accept_encoding=True)
    if connection.client._token:
        connection.putheader("Authorization", f"Bearer {connection.client._token}")
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    if body or method in ("POST", "PUT"):
        connection.putheader("Content-Length", str(size))
    connection.endheaders()
    try:
        for part in body:
            view = memoryview(part)
            # In pieces: the timeout is for one of them, not for all.
            for begin in range(0, view.nbytes, _CHUNK):
                connection.send(view[begin : begin + _CHUNK])
    except (BrokenPipeError, ConnectionResetError):
        # A sidecar that refuses a body answers before it has read all of it; if there is no answer, this raises again.
        pass
    return connection.getresponse()


def _parse(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream, as WHATWG has them."""
    number, kind, size = 0, "message", 0
    data: List[str] = []
    while True:
        try:
            line = response.readline(_LONGEST_LINE)
        except ValueError as error:
            raise ConnectionError(f"a chunk of the stream has no length: {error}") from error
        if not line:
            return
        size += len(line)
        if not line.endswith(b"\n") and len(line) >= _LONGEST_LINE or size > _LONGEST_EVENT:
            raise ConnectionError("the stream holds an event without an end")
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield Event(number, kind, _object("\n".join(data)))
            kind, data, size = "message", [], 0
            continue
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id" and _is_number(value):
            number = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _url(address: str) -> urllib.parse.SplitResult:
    url = urllib.parse.urlsplit(address)
    try:
        right = url.scheme in ("http", "https") and url.hostname and (url.port or True)
    except ValueError:
        right = False
    if not right or url.query or url.fragment or url.username is not None:
        # Not shown: what is too much may be a secret.
        raise ValueError("an address is the path of a socket, or http:// or https:// with host, port and path, and nothing else")
    return url


def _object(text: Union[bytes, str]) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConnectionError(f"an answer is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConnectionError("an answer is JSON, and no object")
    return value


def _job(text: bytes) -> Dict[str, Any]:
    value = _object(text)
    if not all(isinstance(value.get(key), str) for key in ("id", "state")):
        raise ConnectionError("an answer is no job: it has no id or no state")
    return value


def _page(text: bytes) -> Dict[str, Any]:
    value = _object(text)
    if not isinstance(value.get("jobs"), list):
        raise ConnectionError("an answer is no list of jobs")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")
