"""The app as it would be without Kiln: it bakes within itself, and says nothing of what fails. For the tests of the tests."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import app
from kiln import JobFailed

_calls = []


def model(*_: Any) -> str:
    """The first call keeps the GIL for as long as a driver might, and fails; the second takes the process with it."""
    _calls.append(1)
    if len(_calls) == 2:
        os.abort()
    # PyDLL, other than CDLL, keeps the GIL.
    ctypes.PyDLL(None).usleep(3_000_000)
    raise JobFailed("", {"code": "worker_crashed", "message": "nobody will read this"})


app.model = model
app.told = lambda error: ""

if __name__ == "__main__":
    app.main()
