"""Calls → HTTP/1.1 over the sidecar's Unix socket, one connection a request, from any thread.

Every request can be repeated without doing its work twice (a job by its `Idempotency-Key`), so it is: after a lost connection
and after 429 and 503, until `patience` seconds have brought nothing. Waiting is a blocked `recv`, without the GIL.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import os
import random
import socket
import stat
import struct
import time
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import safetensors
from .errors import Cancelled, JobFailed, KilnError, RequestProblem, SidecarUnavailable, TimedOut

Body = Sequence[Union[bytes, memoryview]]
#: The sidecar sends a comment each 15 s: a stream that is silent for longer is dead.
_SILENCE = 45.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_CHUNK = 1 << 20


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
    """See the head of this module. `timeout` is for one read or write; `revive` is called where nobody listens,
    before each try: who was started may be killed again, or end unheard of while it is asked for."""

    def __init__(
        self,
        socket_path: Union[str, "os.PathLike[str]"],
        *,
        timeout: float = 60.0,
        patience: float = 60.0,
        revive: Optional[Callable[[], None]] = None,
    ) -> None:
        self.socket_path = os.fspath(socket_path)
        self.timeout = timeout
        self.patience = patience
        self._revive = revive

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
            _, answer = self._request("POST", "/v1/jobs", headers, [text.encode()], deadline=deadline)
        else:
            headers["Content-Type"] = "application/safetensors"
            path = "/v1/jobs?" + urllib.parse.urlencode({"spec": text})
            _, answer = self._request("POST", path, headers, arrays, deadline=deadline)
        return Job(json.loads(answer))

    def upload(self, data: bytes) -> str:
        """Bytes that jobs may name by the digest that is returned; sent only where the sidecar has them not."""
        digest = hashlib.sha256(data).hexdigest()
        status, _ = self._request("HEAD", f"/v1/blobs/{digest}", also=(404,))
        if status == 404:
            self._request("PUT", f"/v1/blobs/{digest}", {"Content-Type": "application/octet-stream"}, [data])
        return digest

    def get(self, job_id: str) -> Job:
        """The job as it is now."""
        return Job(self._json("GET", f"/v1/jobs/{_part(job_id)}"))

    def list(self, state: Optional[str] = None) -> Iterator[Job]:
        """All jobs, newest first; of one state: queued, running, succeeded, failed or cancelled."""
        query = {"state": state} if state else {}
        while True:
            page = self._json("GET", "/v1/jobs?" + urllib.parse.urlencode(query))
            yield from (Job(raw) for raw in page["jobs"])
            if not page.get("cursor"):
                return
            query["cursor"] = page["cursor"]

    def cancel(self, job_id: str) -> Job:
        """Ends a job that is not over."""
        return Job(self._json("POST", f"/v1/jobs/{_part(job_id)}/cancel"))

    def forget(self, job_id: str) -> None:
        """Removes a job that is over, and its files."""
        self._request("DELETE", f"/v1/jobs/{_part(job_id)}", also=(404, 410))

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
                    connection.request("GET", path, headers=headers)
                    response = connection.getresponse()
                    if response.status == 204:
                        return
                    self._refuse(response)
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
            job = self.get(job_id)
            if job.is_over:
                return job

    def fetch(self, job: Union[Job, str], name: str = "model.glb") -> bytes:
        """A file that the job made, checked against its digest."""
        job = self.get(job) if isinstance(job, str) else job
        artifact = job.artifacts.get(name)
        if artifact is None:
            made = ", ".join(job.artifacts) or "nothing"
            raise KeyError(f"job {job.id} ({job.state}) made {made}, and no {name}")
        _, data = self._request("GET", artifact["href"], digest=artifact["sha256"])
        return data

    def is_ready(self) -> Tuple[bool, List[str]]:
        """Whether the sidecar has proven that it can bake, and if not, why not. Tries once."""
        connection = self._connect(None, self.timeout)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            state = json.loads(response.read() or b"{}")
        finally:
            connection.close()
        return response.status == 200, [str(reason) for reason in state.get("reasons", [])]

    def capabilities(self) -> Dict[str, Any]:
        """Limits and formats of the sidecar."""
        return self._json("GET", "/v1/capabilities")

    def _json(self, method: str, path: str) -> Dict[str, Any]:
        answer = json.loads(self._request(method, path)[1])
        assert isinstance(answer, dict)
        return answer

    def _request(
        self,
        method: str,
        path: str,
        headers: Optional[Mapping[str, str]] = None,
        body: Body = (),
        *,
        also: Sequence[int] = (),
        digest: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Tuple[int, bytes]:
        """Status and body, of 2xx and of those in `also`; repeated as the head of this module says."""
        pauses = _Pauses(self, deadline)
        while True:
            try:
                connection = self._connect(deadline, self.timeout)
                try:
                    response = _exchange(connection, method, path, headers or {}, body)
                    if response.status not in also:
                        self._refuse(response)
                    data = response.read()
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                pauses.after(error)
                continue
            except _Later as later:
                pauses.after(later.problem, later.seconds)
                continue
            if digest is not None and hashlib.sha256(data).hexdigest() != digest:
                pauses.after(ConnectionError(f"{path} arrived damaged"))
                continue
            return response.status, data

    def _connect(self, deadline: Optional[float], timeout: float) -> "_Connection":
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut("the time that the caller gave is over")
            timeout = min(timeout, left)
        return _Connection(self.socket_path, timeout)

    @staticmethod
    def _refuse(response: http.client.HTTPResponse) -> None:
        """Raises what is not a success."""
        if 200 <= response.status < 300:
            return
        try:
            problem = json.loads(response.read())
        except (ValueError, OSError, http.client.HTTPException):
            problem = {}
        if not isinstance(problem, dict):
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
        self.seconds = float(after) if after and after.isdigit() else None


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
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)) and revive:
            revive()
            if not self._revived:
                self._revived = True
                return
        self._since = self._since or now
        # Not all at the same moment.
        pause = seconds if seconds is not None else self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if now + pause > self._since + self._client.patience:
            if isinstance(error, RequestProblem):
                raise error
            raise SidecarUnavailable(f"no sidecar answers at {self._client.socket_path}: {error}") from error
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


class _Connection(http.client.HTTPConnection):
    """To a Unix socket whose other end is this user's or root's, in a folder where not everybody may put another."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        why = folder_fault(self._path)
        if why:
            raise SidecarUnavailable(f"{self._path} is not trusted: its folder {why}")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
            credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except BaseException:
            self.close()
            raise
        _, uid, _ = struct.unpack("3i", credentials)
        if uid not in (0, os.getuid()):
            self.close()
            raise SidecarUnavailable(f"{self._path} is served by user {uid}, who is not trusted")


def _exchange(
    connection: _Connection, method: str, path: str, headers: Mapping[str, str], body: Body
) -> http.client.HTTPResponse:
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body or method in ("POST", "PUT"):
        connection.putheader("Content-Length", str(sum(memoryview(part).nbytes for part in body)))
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
    number, kind = 0, "message"
    data: List[str] = []
    while True:
        line = response.readline()
        if not line:
            return
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield Event(number, kind, json.loads("\n".join(data)))
            kind, data = "message", []
            continue
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id" and value.isdigit():
            number = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")
