"""What tests in a browser share: folders of their own, the programs, a sidecar by TCP, a Chromium, and proof that nothing is left.

    with support.isolated() as folder, support.Sidecar(folder) as sidecar, support.chromium() as browser:
        page = browser.new_page()
        page.goto(sidecar.url)
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: For what must happen, and takes no time but for a busy machine.
SOON = 60.0
#: Told to every process of a test, which tells it to its own: whoever has it is the test's.
MARK = "KILN_TEST_MARK"


def kiln() -> Path:
    """`$KILN_BIN`, or the release build."""
    program = Path(os.environ.get("KILN_BIN") or ROOT / "target/release/kiln").absolute()
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(f"{program} is missing: cargo build --release --workspace --bins, or set KILN_BIN")
    return program


def chromium_path() -> str:
    """Debian's, or `$CHROMIUM`. There is no test without one."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(f"{program} is missing: apt-get install chromium, or set CHROMIUM to the program")
    return program


def launch_options() -> Dict[str, object]:
    """For `playwright.chromium.launch` of either API."""
    # Chromium's own sandbox does not work for root, who is all there is in many containers.
    root = ["--no-sandbox"] if os.getuid() == 0 else []
    return {
        "executable_path": chromium_path(),
        # /dev/shm has 64 MiB in a container; and no page of a test asks anybody outside.
        "args": [*root, "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
    }


@contextlib.contextmanager
def chromium() -> Iterator[object]:
    """A headless Chromium, by Playwright's blocking API."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        try:
            yield browser
        finally:
            browser.close()


class Isolated:
    """A folder for all that a test's processes write, and their environment."""

    def __init__(self) -> None:
        # Short: the path of a socket has 107 bytes at most.
        self.path = Path(tempfile.mkdtemp(prefix="kb-", dir="/tmp"))
        self.mark = uuid.uuid4().hex
        self._shared = shared_memory()

    def environment(self, **more: str) -> Dict[str, str]:
        """For a process: nothing that it finds or keeps is the user's."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KILN_")}
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "HOME"):
            environment[name] = str(self.path)
        return {**environment, "KILN_BIN": str(kiln()), MARK: self.mark, **more}

    def processes(self) -> List[Tuple[int, str]]:
        """Pid and command line of all that were started with `environment`, and of theirs."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except OSError:
                continue  # Gone, or another user's.
        return found

    def left(self) -> List[str]:
        """What should not be there once all is over: processes (which have a moment to be reaped), shared memory."""
        end = time.monotonic() + SOON
        while (processes := self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return [f"process {pid}: {line}" for pid, line in processes] + sorted(shared_memory() - self._shared)

    def remove(self) -> None:
        """Kills what is left, and removes the folder."""
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)


@contextlib.contextmanager
def isolated() -> Iterator[Isolated]:
    """See `Isolated`; `left` is for the test to ask."""
    made = Isolated()
    try:
        yield made
    finally:
        made.remove()


def shared_memory() -> Set[str]:
    """What has a name there: POSIX in /dev/shm, System V in /proc. Kiln's own has none, so that it cannot be left."""
    posix = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    system_v = {f"System V shared memory {line.split()[1]}" for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
    return posix | system_v


class Program:
    """A process whose lines are heard as they come. Leaving the `with` ends it: SIGTERM, and SIGKILL if that does nothing."""

    def __init__(self, command: List[str], environment: Dict[str, str], **options: object) -> None:
        self.lines: List[str] = []
        self._heard: "queue.Queue[Optional[str]]" = queue.Queue()
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._heard.put(self.lines[-1])
        self._heard.put(None)

    def wait_for(self, text: str, seconds: float = SOON) -> str:
        """The next line with `text` in it."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._heard.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"nobody said {text!r} in {seconds:.0f} s:\n{self.said()}") from None
            if line is None:
                raise RuntimeError(f"the program ended with {self.process.wait()} before it said {text!r}:\n{self.said()}")
            if text in line:
                return line

    def said(self) -> str:
        return "\n".join(self.lines[-40:])

    def end(self) -> int:
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
        code = self.process.wait()
        self._listener.join(5.0)
        self.process.stdout.close()
        return code

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Sidecar(Program):
    """`kiln serve` on a port that the kernel chose, with a token, once it has proven that it can bake."""

    def __init__(self, folder: Isolated, *more: str, program: Optional[Path] = None) -> None:
        # Of its own: a test may start several, one after the other or beside each other.
        self.store = Path(tempfile.mkdtemp(prefix="s-", dir=folder.path))
        self.token = secrets.token_hex(16)
        token_file = self.store / "token"
        token_file.touch(0o600)
        token_file.write_text(self.token)
        self.socket = self.store / "kiln.sock"
        command = [str(program or kiln()), "serve", "--socket", str(self.socket), "--store", str(self.store / "store")]
        command += ["--tcp", "127.0.0.1:0", "--token-file", str(token_file), *more]
        super().__init__(command, folder.environment())
        try:
            self.url = self.wait_for("listens at http://").rsplit(" ", 1)[1]
            self.wait_for("serves")
            self._await_ready()
        except BaseException:
            self.end()
            raise

    def _await_ready(self) -> None:
        end, reasons = time.monotonic() + 3 * SOON, ["nothing was answered"]
        while time.monotonic() < end:
            status, body = self.request("GET", "/readyz")
            if status == 200:
                return
            reasons = json.loads(body)["reasons"]
            if any("failed" in reason for reason in reasons):
                break
            time.sleep(0.05)  # Nothing but an answer says that it is ready.
        raise RuntimeError(f"the sidecar is not ready: {'; '.join(reasons)}\n{self.said()}")

    def request(self, method: str, path: str, body: Optional[bytes] = None, **headers: str) -> Tuple[int, bytes]:
        """Status and body, whatever they are."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with _direct.open(request, timeout=SOON) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


#: No proxy of the environment stands between two processes of this machine.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
