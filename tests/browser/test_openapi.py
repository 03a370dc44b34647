"""`/openapi.json` against the server that gives it: no 5xx but 503, and nothing that the document does not say.

`FUZZ_SECONDS` (45) of the environment make a longer run; `SEED` repeats one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import samples
import support
from kiln import arrays, safetensors

SECONDS = int(os.environ.get("FUZZ_SECONDS", 45))
#: Always the same where nobody asks for another: what a change breaks is to be told from what was never asked before.
SEED = int(os.environ.get("SEED", 1))
#: All that schemathesis has, but for this: nothing here belongs to one user and is hidden from another.
WITHOUT = "object_level_authorization"
#: Orders are taken by the Unix socket alone, and schemathesis comes by TCP: all of them must be refused.
ORDERS = "/v1/admin/"
#: A right request may also come too late (410), find the queue full (429), or ask for bytes that are not there (416).
ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409", "410", "416", "429", "503"]

#: A wrong one of a job that was forgotten is told that first.
REFUSED = ["400", "401", "403", "404", "405", "409", "410", "415", "422", "503"]


def start(folder: support.Isolated) -> Tuple[support.Sidecar, Dict[str, str]]:
    """A sidecar with a job that is done, and what `api_hooks.py` is told."""
    path = folder.path / "root" / "mesh.glb"
    path.parent.mkdir()
    path.write_bytes(b"no mesh")
    sidecar = support.Sidecar(folder, "--root", str(path.parent))
    try:
        spot = samples.spot(32)
        tensors = arrays.pack(spot.vertices, spot.faces, spot.uvs, spot.observations, spot.masks, spot.extrinsics, spot.intrinsics)
        spec = '{"texture_size":256,"quality":"draft","keep_uvs":true,"device":"cpu"}'
        status, answer = sidecar.request(
            "POST", f"/v1/jobs?spec={spec}".replace('"', "%22"), b"".join(safetensors.encode(tensors, arrays.METADATA)),
            Content_Type="application/safetensors", Idempotency_Key="the one that is done", Prefer="wait=60",
        )
        job = json.loads(answer)
        if (status, job.get("state")) != (200, "succeeded"):
            raise RuntimeError(f"the sample is not baked: {status} {answer!r}")
        blob = path.read_bytes()
        digest = hashlib.sha256(blob).hexdigest()
        sidecar.request("PUT", f"/v1/blobs/{digest}", blob)
    except BaseException:
        sidecar.end()
        raise
    # A model of COLMAP by its names, and without a view.
    model = path.parent / "model"
    (model / "images").mkdir(parents=True)
    for name in ("images.txt", "cameras.txt"):
        (model / name).write_text("# nothing\n")
    return sidecar, {
        "KILN_TEST_BLOB": digest, "KILN_TEST_JOB": job["id"], "KILN_TEST_PATH": str(path), "KILN_TEST_MODEL": str(model),
    }


def fuzz(folder: support.Isolated, sidecar: support.Sidecar, told: Dict[str, str], seconds: int, document: Optional[Path] = None) -> "subprocess.CompletedProcess[str]":
    """One run; `document` in place of the server's own."""
    config = folder.path / "schemathesis.toml"
    statuses = json.dumps(ACCEPTED)
    config.write_text(
        f"[checks.positive_data_acceptance]\nexpected-statuses = {statuses}\n"
        f"[checks.negative_data_rejection]\nexpected-statuses = {json.dumps(REFUSED)}\n"
    )
    command = [str(Path(sys.executable).with_name("st")), "--config-file", str(config), "run", str(document or sidecar.url + "/openapi.json")]
    # One worker: CPython 3.11's parser, which hypothesis calls, counts its depth wrongly in two threads.
    command += ["--url", sidecar.url, "--header", f"Authorization: Bearer {sidecar.token}", "--workers", "1"]
    command += ["--checks", "all", "--exclude-checks", WITHOUT, "--continue-on-failure", "--max-time", str(seconds)]
    command += ["--request-timeout", "30", "--seed", str(SEED), "--generation-database", "none", "--no-color"]
    environment = folder.environment(**told, KILN_TEST_SEED=str(SEED), SCHEMATHESIS_HOOKS="api_hooks", PYTHONPATH=str(support.HERE), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(command, cwd=folder.path, env=environment, capture_output=True, text=True, timeout=seconds + 120)


class OpenApi(unittest.TestCase):
    """The document and the server say the same."""

    def test_the_server_does_what_the_document_says(self) -> None:
        with support.isolated() as folder:
            sidecar, told = start(folder)
            with sidecar:
                run = fuzz(folder, sidecar, told, SECONDS)
                status, metrics = sidecar.request("GET", "/metrics")
                routes = set(json.loads(sidecar.request("GET", "/openapi.json")[1])["paths"])
            self.assertEqual(run.returncode, 0, f"seed {SEED}\n{run.stdout}{run.stderr}")
            self.assertEqual(status, 200)
            answered = re.findall(r'kiln_http_requests_total{route="([^"]*)",status="(\d+)"} (\d+)', metrics.decode())
            (cases,) = re.findall(r"(\d+) generated", run.stdout)
            print(f"\nseed {SEED}: {cases} cases, {sum(int(count) for *_, count in answered)} requests", file=sys.stderr)
            # Of no use if all was refused: each route gave what it is for at some time.
            useful = {route for route, code, _ in answered if code.startswith("2")}
            self.assertEqual({route for route in routes - useful if not route.startswith(ORDERS)}, set())
            self.assertEqual({route for route in useful if route.startswith(ORDERS)}, set())
            self.assertEqual({code for _, code, _ in answered if code.startswith("5")} - {"503"}, set())
            self.assertEqual(folder.left(), [])

    def test_a_document_that_is_wrong_is_found(self) -> None:
        def wrong_type(document: Dict[str, Any]) -> None:
            document["components"]["schemas"]["Job"]["properties"]["starts"]["type"] = "string"

        def missing_status(document: Dict[str, Any]) -> None:
            del document["paths"]["/v1/jobs/{id}"]["get"]["responses"]["404"]

        with support.isolated() as folder:
            sidecar, told = start(folder)
            with sidecar:
                for plant, found in ((wrong_type, "ST108 Response violates schema"), (missing_status, "ST103 Undocumented status code")):
                    document = json.loads(sidecar.request("GET", "/openapi.json")[1])
                    plant(document)
                    planted = folder.path / "planted.json"
                    planted.write_text(json.dumps(document))
                    run = fuzz(folder, sidecar, told, 10, planted)
                    self.assertEqual((run.returncode, found in run.stdout), (1, True), run.stdout)


if __name__ == "__main__":
    unittest.main()
