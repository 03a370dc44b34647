"""What can go wrong, one class for each thing that a caller would do about it. All of them can be pickled."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class KilnError(Exception):
    """All errors of this package, but for wrong arguments, which are ValueError and TypeError as everywhere."""


class KilnWarning(UserWarning):
    """What a job warned of: the result is there, and may not be what was wanted."""


class SidecarUnavailable(KilnError):
    """No sidecar answers, and none can be started."""


class TimedOut(KilnError, TimeoutError):
    """The caller's own `timeout` passed; the job was cancelled."""


class Cancelled(KilnError):
    """Somebody cancelled the job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"job {self.job_id} was cancelled"


class RequestProblem(KilnError):
    """The sidecar refused a request (`application/problem+json`)."""

    def __init__(self, status: int, problem: Dict[str, Any]) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem
        #: One of the closed list: `invalid_spec`, `queue_full`, `not_found`, …
        self.code: str = str(problem.get("code", "internal"))
        self.detail: str = str(problem.get("detail", ""))
        #: The key of the job's spec that is wrong.
        self.field: Optional[str] = problem.get("field")
        self.retryable: bool = bool(problem.get("retryable", False))

    def __str__(self) -> str:
        what = f"{self.field}: {self.detail}" if self.field else self.detail
        return f"{what or self.problem.get('title', 'refused')} ({self.code}, {self.status})"


class JobFailed(KilnError):
    """The job ended without a result; `report` is its error in full."""

    def __init__(self, job_id: str, report: Dict[str, Any]) -> None:
        super().__init__(job_id, report)
        self.job_id = job_id
        self.report = report
        #: `worker_crashed`, `invalid_asset`, `gpu_device_lost`, …
        self.code: str = str(report.get("code", "internal"))
        #: What repeating it may do: `input`, `ambiguous`, `resource`, `victim`, `transient`, `config`.
        self.class_: str = str(report.get("class", "ambiguous"))
        self.message: str = str(report.get("message", ""))
        self.hint: str = str(report.get("hint", ""))
        self.role: Optional[str] = report.get("role")
        self.phase: Optional[str] = report.get("phase")
        self.signal: Optional[str] = report.get("signal")
        #: Every process that ran for the job, and how it ended.
        self.attempts: List[Dict[str, Any]] = list(report.get("attempts") or [])
        #: The last lines that the process at fault wrote.
        self.log_tail: List[str] = list(report.get("log_tail") or [])

    def __str__(self) -> str:
        hint = f": {self.hint}" if self.hint else ""
        return f"{self.message}{hint} ({self.code})"
