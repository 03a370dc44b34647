"""Beats of a process or an event loop, a few milliseconds apart → the times at which it did not beat, and whose fault that was.

    python heartbeat.py PID    beats with nothing else to do, until its input ends; then tells, as JSON, its gaps, and how long the
                               threads of PID waited for a processor

A machine that is busy stops every process now and then. Of a gap, that is the time in which the process's threads could have run
and had to wait for a processor, as the kernel counts it: the one that beats, and whoever held the GIL meanwhile; or the time in
which a process that does nothing but beat stood still as well. The rest is the gap's `own`: somebody computed or slept and held
the GIL, or the loop. Where the other stood still for `STARVED`, so did those who held the GIL, most likely: then half of the rest
is the machine's, too. Times are CLOCK_MONOTONIC's, the same in every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

PERIOD = 0.005
#: Shorter ones are told by nobody.
SHORTEST = 0.020
#: A process that does nothing but beat is let run within some milliseconds, even where ten others want to.
STARVED = 0.100
#: Between two looks at the accounts of another process's threads: dozens of files each time.
LOOK = 0.020

#: Begin, end, and seconds of waiting for a processor in between.
Gap = Tuple[float, float, float]


class Heartbeat:
    """The beats of one thread or loop."""

    def __init__(self) -> None:
        self.gaps: List[Gap] = []
        self.beats = 0
        self._last: Optional[float] = None
        self._waited = 0.0
        self._account = -1

    def beat(self) -> None:
        """Once more, always from the same thread."""
        now, waited = time.monotonic(), self._waits()
        if self._last is not None and now - self._last > SHORTEST:
            self.gaps.append((self._last, now, waited - self._waited))
        self._last, self._waited = now, waited
        self.beats += 1

    def _waits(self) -> float:
        """Of this thread, so far, for a processor: the second number of its schedstat, in nanoseconds."""
        if self._account < 0:
            # A kernel without the account excuses nothing.
            with contextlib.suppress(OSError):
                self._account = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        if self._account < 0:
            return 0.0
        return int(os.pread(self._account, 99, 0).split()[1]) / 1e9

    def told(self) -> Dict[str, Any]:
        """As JSON."""
        return {"beats": self.beats, "gaps": list(self.gaps)}

    def in_thread(self) -> "Heartbeat":
        """Beats on a thread: it stops where another holds the GIL."""

        def run() -> None:
            while True:
                self.beat()
                time.sleep(PERIOD)

        threading.Thread(target=run, name="heartbeat", daemon=True).start()
        return self

    async def in_loop(self) -> None:
        """Beats in the running event loop: it stops where a callback does not return, too."""
        while True:
            self.beat()
            await asyncio.sleep(PERIOD)


class Waits:
    """Of all threads of a process for a processor, seen from outside: it needs no GIL to look."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: When it was looked, and the seconds that all threads had waited by then, since the first look.
        self.told: List[Tuple[float, float]] = []
        self._accounts: Dict[str, float] = {}

    def look(self) -> None:
        """Now. A thread that is new waited since it began; what one waited that is gone stays counted."""
        total = self.told[-1][1] if self.told else 0.0
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with contextlib.suppress(OSError, IndexError), open(f"/proc/{self.pid}/task/{thread}/schedstat") as account:
                    waited = int(account.read().split()[1]) / 1e9
                    total += waited - self._accounts.get(thread, 0.0 if self.told else waited)
                    self._accounts[thread] = waited
        self.told.append((time.monotonic(), total))


class Machine(NamedTuple):
    """What it let nobody do: the gaps of one that only beats, and the waits of the process that is watched, as `Waits` tells them."""

    gaps: Sequence[Sequence[float]]
    waits: Sequence[Sequence[float]] = ()

    def waited(self, begin: float, end: float) -> float:
        """Seconds between the last look before and the first one after."""
        if not self.waits:
            return 0.0
        times = [at for at, _ in self.waits]
        before, after = bisect_right(times, begin) - 1, bisect_left(times, end)
        return self.waits[min(after, len(times) - 1)][1] - self.waits[max(before, 0)][1]


def own(gap: Sequence[float], machine: Machine) -> float:
    """Seconds of a gap that are not the machine's."""
    begin, end, waited = gap
    beside = [other for other in machine.gaps if other[0] < end and begin < other[1]]
    still = sum(min(end, other[1]) - max(begin, other[0]) for other in beside)
    rest = max(0.0, end - begin - max(waited, still, machine.waited(begin, end)))
    return rest / 2 if any(other[1] - other[0] >= STARVED for other in beside) else rest


def longest(gaps: Sequence[Sequence[float]], machine: Optional[Machine] = None) -> float:
    """Of the gaps; with `machine`, of what is their own; 0 without any."""
    return max((gap[1] - gap[0] if machine is None else own(gap, machine) for gap in gaps), default=0.0)


def main() -> None:
    heart, waits = Heartbeat().in_thread(), Waits(int(sys.argv[1]))
    waits.look()
    while not select.select([sys.stdin], [], [], LOOK)[0]:
        waits.look()
    print(json.dumps({**heart.told(), "waits": waits.told}))


if __name__ == "__main__":
    main()
