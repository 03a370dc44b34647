"""Beats of a process or an event loop, a few milliseconds apart → the times at which it did not beat, and whose fault that was.

    python heartbeat.py        beats with nothing else to do, until its input ends; then tells its gaps as JSON

A machine that is busy stops every process now and then. Of a gap, that is the time in which the thread could have run and had to
wait for a processor, as the kernel counts it (a thread that waits for the GIL asks for it each 5 ms, so its waits count, too);
or the time in which a process that does nothing but beat stood still as well. The rest is the gap's `own`: somebody computed or
slept and held the GIL, or the loop. Where the other stood still for `STARVED`, so did those who held the GIL, most likely: then
half of the rest is the machine's, too. Times are CLOCK_MONOTONIC's, the same in every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

PERIOD = 0.005
#: Shorter ones are told by nobody.
SHORTEST = 0.020
#: A process that does nothing but beat is let run within some milliseconds, even where ten others want to.
STARVED = 0.100

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


def own(gap: Sequence[float], machine: Sequence[Sequence[float]]) -> float:
    """Seconds of a gap that are not the machine's; `machine` are the gaps of one that only beats."""
    begin, end, waited = gap
    beside = [other for other in machine if other[0] < end and begin < other[1]]
    rest = end - begin - max(waited, sum(min(end, other[1]) - max(begin, other[0]) for other in beside))
    return rest / 2 if any(other[1] - other[0] >= STARVED for other in beside) else rest


def longest(gaps: Sequence[Sequence[float]], machine: Optional[Sequence[Sequence[float]]] = None) -> float:
    """Of the gaps; with `machine`, of what is their own; 0 without any."""
    return max((gap[1] - gap[0] if machine is None else own(gap, machine) for gap in gaps), default=0.0)


def main() -> None:
    heart = Heartbeat().in_thread()
    sys.stdin.read()
    print(json.dumps(heart.told()))


if __name__ == "__main__":
    main()
