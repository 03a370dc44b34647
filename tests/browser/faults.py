"""A seed → faults, from outside, in the processes of somebody's private sidecar; each told to a log with what it hit.

| fault | what is done | what it stands for |
|---|---|---|
| `kill` | SIGKILL | the kernel is out of memory |
| `segv`, `abort`, `xcpu` | the signal | a crash of driver or parser, a failed assertion, a limit of the processor's time |
| `memory` | RLIMIT_AS below what it has: no page more | memory that is used up |
| `pause` | SIGSTOP, SIGCONT before two seconds of silence are over | a machine that is busy otherwise |
| `stall` | SIGSTOP | a hang |
| `sidecar` | SIGKILL to `kiln serve` itself | the same, of the sidecar |

A worker is stopped before anything is done to it, and only one that was seen to stop counts: the dead cannot be stopped, and no
pid is mistaken for another, since all goes by pidfd.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional

ROLES = ("prepare", "bake", "encode")
#: Shares of the plan. A stall costs the two seconds until it is noticed, and the sidecar's death all jobs at work.
SHARES = {"kill": 50, "segv": 40, "abort": 30, "xcpu": 20, "memory": 26, "pause": 20, "stall": 8, "sidecar": 6}
_SIGNALS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "abort": signal.SIGABRT, "xcpu": signal.SIGXCPU}
#: Of a fault's moment within a worker's life, in seconds: that of most of them in a small job.
_DELAY = {"prepare": 0.2, "bake": 0.3, "encode": 0.0}
#: A look at the processes: an encode of a small texture lives for two or three milliseconds.
_LOOK = 0.0005
#: For a worker of the role that is wanted to come, before any will do.
_PATIENCE = 0.5
#: For a process to stop, or to be gone after its fault, on a busy machine.
_SOON = 10.0


class Target(NamedTuple):
    """A process that may be hit."""

    pid: int
    role: str


class Injector(threading.Thread):
    """Hits `wanted` live processes beneath `owner`, whose child is the sidecar; then, or at `stop`, ends."""

    def __init__(self, owner: int, seed: int, wanted: int, log: Path) -> None:
        super().__init__(name="faults", daemon=True)
        self.owner, self.seed, self.wanted = owner, seed, wanted
        self.hits: Counter = Counter()
        self.by_role: Counter = Counter()
        self.missed = 0
        #: Pids that were stopped for good.
        self.stalled: List[int] = []
        #: What went wrong with the injector itself.
        self.error: Optional[BaseException] = None
        self._random = random.Random(seed)
        self._log = log
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Soon."""
        self._stopped.set()

    @property
    def total(self) -> int:
        return sum(self.hits.values())

    def run(self) -> None:
        try:
            with open(self._log, "a") as log:
                for kind in self._plan():
                    while not self._stopped.is_set() and not self._inject(kind, log):
                        self.missed += 1
        except BaseException as error:
            self.error = error

    def _plan(self) -> List[str]:
        whole = sum(SHARES.values())
        plan = [kind for kind, share in SHARES.items() for _ in range(max(1, round(self.wanted * share / whole)))]
        while len(plan) < self.wanted:
            plan.append("kill")
        self._random.shuffle(plan)
        return plan[: self.wanted]

    def _inject(self, kind: str, log) -> bool:
        target = self._sidecar() if kind == "sidecar" else self._worker()
        if target is None:
            return False
        try:
            descriptor = os.pidfd_open(target.pid)
        except ProcessLookupError:
            return False
        try:
            # What the pid names now, it named when the descriptor was made, or else nothing can be sent through that.
            if not self._is(target) or not _stop(descriptor, target.pid):
                return False
            at = time.monotonic()
            try:
                self._strike(kind, descriptor, target)
            except ProcessLookupError:
                # Whoever watches over it was faster.
                return False
        finally:
            os.close(descriptor)
        self.hits[kind] += 1
        self.by_role[target.role] += 1
        log.write(json.dumps({"at": round(at, 4), "pid": target.pid, "role": target.role, "fault": kind}) + "\n")
        log.flush()
        return True

    def _strike(self, kind: str, descriptor: int, target: Target) -> None:
        if kind == "pause":
            self._stopped.wait(self._random.uniform(0.1, 1.0))
        elif kind == "memory":
            resource.prlimit(target.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        elif kind != "stall":
            signal.pidfd_send_signal(descriptor, _SIGNALS.get(kind, signal.SIGKILL))
        if kind != "stall":
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            except ProcessLookupError:
                return  # SIGKILL needs no SIGCONT.
        if kind in ("pause", "memory"):
            return
        if kind == "stall":
            # One that nobody waits for yet is not missed either: at the end all must be gone.
            self.stalled.append(target.pid)
            return
        # Readable once it is dead.
        if not select.select([descriptor], [], [], _SOON)[0]:
            raise RuntimeError(f"{target.role} {target.pid} lives {_SOON:.0f} s after {kind}")

    def _sidecar(self) -> Optional[Target]:
        for pid in _children(self.owner):
            if _arguments(pid)[1:2] == ["serve"]:
                return Target(pid, "sidecar")
        self._stopped.wait(_LOOK)
        return None

    def _worker(self) -> Optional[Target]:
        """One of a role by lot, at a moment of its life by lot."""
        (wanted,) = self._random.choices(ROLES, weights=(3, 5, 2))
        end = time.monotonic() + _PATIENCE
        while not self._stopped.wait(_LOOK):
            sidecar = self._sidecar()
            workers = [Target(pid, role) for pid, role in _workers(sidecar.pid)] if sidecar else []
            if time.monotonic() < end:
                workers = [worker for worker in workers if worker.role == wanted]
            if workers:
                chosen = self._random.choice(workers)
                self._stopped.wait(self._random.uniform(0, _DELAY[chosen.role]))
                return chosen
        return None

    def _is(self, target: Target) -> bool:
        if target.role == "sidecar":
            return target.pid in _children(self.owner)
        sidecar = self._sidecar()
        return sidecar is not None and (target.pid, target.role) in _workers(sidecar.pid)


def _stop(descriptor: int, pid: int) -> bool:
    """Whether it lived, and stands still now."""
    end = time.monotonic() + _SOON
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
        while time.monotonic() < end:
            state = _state(pid)
            if state in "ZX":
                return False
            if state == "T":
                return True
            time.sleep(0.0001)
    except ProcessLookupError:
        return False
    raise RuntimeError(f"process {pid} does not stop")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def _workers(sidecar: int) -> List[tuple]:
    found = []
    for pid in _children(sidecar):
        arguments = _arguments(pid)
        # A child that has not become kiln-baker yet is a copy of the sidecar.
        if arguments[0].endswith("kiln-baker") and arguments[1:2] and arguments[1] in ROLES:
            found.append((pid, arguments[1]))
    return found


def _arguments(pid: int) -> List[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return [""]


def _children(parent: int) -> List[int]:
    return list(_each_child(parent))


def _each_child(parent: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{parent}/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{parent}/task/{thread}/children") as children:
                yield from map(int, children.read().split())
        except OSError:
            continue  # The thread is gone.
