"""Where the sidecar is: `$KILN_URL` with `$KILN_TOKEN`, else `$KILN_SOCKET`, else a private one that passes its jobs on to the fleet of
`$KILN_QUEUE` and `$KILN_STORE`, else the default socket if somebody listens there, in a folder of this user's alone, else a private
one, started here.

A private sidecar belongs to this process: its store is a temporary folder, it ends with the process however that ends, and a
process made by `fork` starts one of its own. The kernel ends a child when the *thread* that started it ends, so one thread
starts the sidecar and then only waits for it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from typing import Dict, List, Optional, Tuple

from .client import HAS_UNIX, Client, folder_fault
from .errors import SidecarUnavailable, TimedOut

#: Runs in between, and becomes the sidecar: `preexec_fn` is not safe in a process with threads. 1 is PR_SET_PDEATHSIG; nobody
#: could take the results of an orphan, so it need not end gently.
_STARTER = """
import ctypes, os, signal, sys
if ctypes.CDLL(None, use_errno=True).prctl(1, int(signal.SIGKILL), 0, 0, 0) != 0: sys.exit("prctl failed")
if os.getppid() != int(sys.argv[1]): sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
_PREFIX = "kiln-py-"
#: The self-test bakes once; on a busy machine without a GPU that may take a while.
_START = 180.0
#: Of a socket's path, by the kernel.
_LONGEST_PATH = 107


def find(deadline: Optional[float] = None) -> "Sidecar":
    """The sidecar to use now; TimedOut where there is none by `deadline`, a time of `time.monotonic()`."""
    url, named = os.environ.get("KILN_URL"), os.environ.get("KILN_SOCKET")
    if url:
        return Sidecar(url, None, os.environ.get("KILN_TOKEN"))
    if named:
        return Sidecar(named, None)
    queue, store = os.environ.get("KILN_QUEUE"), os.environ.get("KILN_STORE")
    if queue and store:
        passing = front(queue, store)
        passing.ensure(deadline)
        return Sidecar(passing.socket, passing)
    if not HAS_UNIX:
        raise SidecarUnavailable("kiln runs on Linux: set KILN_URL and KILN_TOKEN to those of a sidecar there, or give client=")
    with _lock:
        private = _private
    if private is None:
        default = default_socket()
        if not folder_fault(default, own=True) and _listens(default, deadline):
            return Sidecar(default, None)
        private = _get_private()
    private.ensure(deadline)
    return Sidecar(private.socket, private)


class Sidecar:
    """A place to connect to, and how to get it back."""

    def __init__(self, path: str, private: Optional["_Private"], token: Optional[str] = None) -> None:
        self.path = path
        self._token = token
        self.is_private = private is not None
        self._private = private

    def client(self, *, patience: float = 60.0) -> Client:
        """For one call: a private sidecar that dies under it is started once more."""
        private = self._private
        return Client(self.path, self._token, patience=patience, revive=private.ensure if private else None)


def default_socket() -> str:
    """As `kiln serve` has it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = os.path.join(runtime, "kiln") if os.path.isabs(runtime) else f"/tmp/kiln-{os.getuid()}"
    return os.path.join(folder, "kiln.sock")


def front(queue: str, store: str, credentials: Optional[str] = None, tenant: Optional[str] = None) -> "_Private":
    """A private sidecar that passes its jobs on to a fleet; the same for the same fleet."""
    if not HAS_UNIX:
        raise SidecarUnavailable("kiln runs on Linux: elsewhere a fleet is asked through `kiln serve --fleet` there, by its URL")
    named = {"KILN_QUEUE": queue, "KILN_STORE": store, "KILN_CREDENTIALS": credentials, "KILN_TENANT": tenant}
    fleet = tuple((name, value) for name, value in named.items() if value)
    with _lock:
        if fleet not in _fronts:
            _fronts[fleet] = _Private(fleet)
            atexit.register(_fronts[fleet].stop_own)
        return _fronts[fleet]


def binary() -> str:
    """`$KILN_BIN`, else `kiln` of this Python's environment, else on PATH, else in the checkout around this package."""
    named = os.environ.get("KILN_BIN")
    if named:
        if not os.access(named, os.X_OK):
            raise SidecarUnavailable(f"KILN_BIN={named} is no program")
        return os.path.abspath(named)
    own = os.path.join(sysconfig.get_path("scripts"), "kiln")
    checkout = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))
    for place in [own, shutil.which("kiln"), os.path.join(checkout, "target", "release", "kiln")]:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.abspath(place)
    raise SidecarUnavailable(
        "no sidecar runs, and no program kiln is on PATH to start one: pip install 'kiln-client[server]' brings it, KILN_BIN "
        "names it, and KILN_SOCKET or KILN_URL name a sidecar that runs"
    )


class _Unlucky(SidecarUnavailable):
    """A start that is worth a second one: something killed the sidecar, or a worker of its self-test."""


class _Private:
    """A sidecar of this process, for the fleet that these variables name, if there are any. All of its methods may be called from
    any thread."""

    def __init__(self, fleet: Tuple[Tuple[str, str], ...] = ()) -> None:
        self._fleet = fleet
        #: A fork has it, too, and must leave it alone.
        self._owner = os.getpid()
        try:
            self._make_folder()
        except OSError as error:
            raise SidecarUnavailable(f"no folder for a sidecar can be made: {error}; TMPDIR names another place") from error
        self.socket = os.path.join(self.folder, "kiln.sock")
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._starting = threading.Lock()
        #: Bytes of the log before its latest start, which are not its words.
        self._said = 0
        self._proven = False
        self._stopped = False

    def _make_folder(self) -> None:
        import fcntl

        base = tempfile.gettempdir()
        if len(base) + len(_PREFIX) + 20 > _LONGEST_PATH:
            base = "/tmp"
        _sweep()
        made = tempfile.mkdtemp(prefix="new-" + _PREFIX, dir=base)
        # Held as long as this process lives: whoever finds it free may remove the folder, which has its name only from then on.
        self._held = os.open(os.path.join(made, "held"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        self.folder = os.path.join(base, os.path.basename(made)[len("new-") :])
        os.rename(made, self.folder)

    def ensure(self, deadline: Optional[float] = None) -> None:
        """Starts it where it does not run, and returns once it has proven that it can bake; TimedOut at `deadline`, from when on
        it goes on starting."""
        if self._owner != os.getpid():
            raise SidecarUnavailable(f"the sidecar is that of process {self._owner}: a fork asks for one of its own")
        if not self._starting.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            raise TimedOut("the time that the caller gave is over, and another thread still starts the sidecar")
        try:
            try:
                self._start(deadline)
            except _Unlucky:
                try:
                    self._start(deadline)
                except _Unlucky as error:
                    raise SidecarUnavailable(str(error)) from None
        finally:
            self._starting.release()

    def _start(self, deadline: Optional[float]) -> None:
        if self._process is None or not self._runs(self._process, deadline):
            if self._stopped:
                raise SidecarUnavailable("this process is about to end")
            self._said, self._proven = self._log_size(), False
            self._process = self._spawn()
        if self._proven:
            return
        try:
            self._await(self._process, deadline)
        except TimedOut:
            # The next call may find it ready.
            raise
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._proven = True

    def _runs(self, process: "subprocess.Popen[bytes]", deadline: Optional[float]) -> bool:
        if process.poll() is not None:
            return False
        if not self._proven or _listens(self.socket, deadline):
            return True
        # About to end, most likely: its keeper has not heard of it yet.
        try:
            process.wait(2.0 if deadline is None else min(2.0, max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop_own(self) -> None:
        """Ends it, unless it is that of the process that this one is a fork of."""
        if self._owner == os.getpid():
            self.stop()

    def stop(self) -> None:
        """Ends it, and removes what it kept."""
        self._stopped = True
        process = self._process
        if process is not None and process.poll() is None:
            # The second signal says not to wait for jobs at work.
            for patience in (0.5, 4.0):
                try:
                    process.send_signal(signal.SIGTERM)
                    process.wait(patience)
                    break
                except subprocess.TimeoutExpired:
                    continue
            else:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._held)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        serve = [binary(), "serve", "--socket", self.socket, "--store", os.path.join(self.folder, "store")]
        serve += ["--fleet"] if self._fleet else []
        python = _python()
        command = [python, "-I", "-S", "-c", _STARTER, str(os.getpid()), *serve] if python else serve
        outcome: List[object] = []
        begun = threading.Event()

        def keep() -> None:
            try:
                with open(os.path.join(self.folder, "log"), "ab") as log:
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env={**os.environ, **dict(self._fleet)},
                        # Ctrl-C is for this process, which then says what becomes of the sidecar.
                        start_new_session=True,
                    )
            except BaseException as error:
                outcome.append(error)
                begun.set()
                return
            outcome.append(process)
            begun.set()
            process.wait()

        threading.Thread(target=keep, name="kiln sidecar", daemon=True).start()
        begun.wait()
        process = outcome[0]
        if isinstance(process, subprocess.Popen):
            return process
        raise SidecarUnavailable(f"{serve[0]} cannot be started: {process}")

    def _await(self, process: "subprocess.Popen[bytes]", deadline: Optional[float]) -> None:
        client = Client(self.socket, timeout=10.0)
        end, pause, reasons = time.monotonic() + _START, 0.01, ["it does not listen"]
        while time.monotonic() < end:
            if process.poll() is not None:
                error = SidecarUnavailable if process.returncode >= 0 else _Unlucky
                raise error(f"the sidecar ended with {process.returncode} at its start:\n{self._last_words()}")
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"the time that the caller gave is over, and the sidecar still starts: {'; '.join(reasons)}")
            try:
                ready, reasons = client.is_ready(deadline=deadline)
                if ready:
                    return
                if any("failed" in reason for reason in reasons):
                    raise _Unlucky(f"the sidecar cannot bake: {'; '.join(reasons)}\n{self._last_words()}")
            except _Unlucky:
                raise
            except (SidecarUnavailable, TimedOut) as error:
                reasons = [str(error)]
            # Asked again rather than told: nothing but an answer says that it is ready.
            time.sleep(pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, 0.2)
        raise SidecarUnavailable(f"the sidecar is not ready after {_START:.0f} s: {'; '.join(reasons)}\n{self._last_words()}")

    def _log_size(self) -> int:
        try:
            return os.stat(os.path.join(self.folder, "log")).st_size
        except OSError:
            return 0

    def _last_words(self) -> str:
        try:
            with open(os.path.join(self.folder, "log"), "rb") as log:
                log.seek(max(self._said, self._log_size() - 4096))
                return log.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""


_lock = threading.Lock()
_private: Optional[_Private] = None
_fronts: Dict[Tuple[Tuple[str, str], ...], _Private] = {}


def _get_private() -> _Private:
    global _private
    with _lock:
        if _private is None:
            _private = _Private()
            atexit.register(_stop)
        return _private


def _stop() -> None:
    global _private
    with _lock:
        private, _private = _private, None
    if private is not None:
        private.stop()


def _forked() -> None:
    global _lock, _private
    for private in [*([_private] if _private else []), *_fronts.values()]:
        # The descriptor shares its lock with the parent's: closing it here leaves that one locked.
        os.close(private._held)
    _lock, _private = threading.Lock(), None
    _fronts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _python() -> Optional[str]:
    """An interpreter for the starter: an embedded one's `sys.executable` is another program (uWSGI)."""
    if sys.executable and os.path.basename(sys.executable).startswith(("python", "pypy")):
        return sys.executable
    return shutil.which("python3")


def _listens(path: str, deadline: Optional[float] = None) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(5.0 if deadline is None else min(5.0, max(0.001, deadline - time.monotonic())))
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _sweep() -> None:
    """Removes the folders of processes that were killed."""
    import fcntl

    for entry in os.scandir(tempfile.gettempdir()):
        if not entry.name.startswith(_PREFIX):
            continue
        try:
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            held = os.open(os.path.join(entry.path, "held"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:
            pass  # Its owner lives.
        finally:
            os.close(held)
