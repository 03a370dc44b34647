"""For schemathesis, which imports this: what the document cannot say of a request that is to be accepted.

Inputs must be there (`KILN_TEST_BLOB` was uploaded; it is no mesh, so that jobs end soon), a key must be a new one, and the spec
of a body that is no JSON is JSON in a string. Requests that are to be refused stay as they are, but for those that are wrong in the
schema's eyes alone.
"""

from __future__ import annotations

import hashlib
import os
import random
from typing import Any, Dict

import schemathesis

CHANCE = random.Random(int(os.environ["KILN_TEST_SEED"]))
BLOB, DONE = os.environ["KILN_TEST_BLOB"], os.environ["KILN_TEST_JOB"]
SPEC = '{"texture_size": 512, "quality": "draft"}'


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: Dict[str, Any]) -> None:
    if case.meta is None:
        return
    if case.meta.generation.mode is not schemathesis.GenerationMode.POSITIVE:
        if case.media_type == "multipart/form-data" and isinstance(case.body, dict):
            lack_a_file(case.body)
        return
    if case.operation.label == "POST /v1/jobs":
        if isinstance(case.headers.get("Idempotency-Key"), str):
            case.headers["Idempotency-Key"] = f"{CHANCE.getrandbits(128):032x}" + case.headers["Idempotency-Key"][:200]
        if "spec" in case.query:
            case.query["spec"] = SPEC
        if isinstance(case.body, dict):
            name_inputs(case.body)
    elif case.operation.label == "GET /v1/jobs/{id}/artifacts/{name}" and CHANCE.getrandbits(1):
        case.path_parameters["id"] = DONE
    elif case.operation.label == "PUT /v1/blobs/{digest}" and isinstance(case.body, bytes):
        case.path_parameters["digest"] = hashlib.sha256(case.body).hexdigest()
    elif case.operation.label in ("HEAD /v1/blobs/{digest}", "GET /v1/blobs/{digest}"):
        case.path_parameters["digest"] = BLOB


def lack_a_file(body: Dict[str, Any]) -> None:
    """What a file holds is bytes on the wire, a number as well: no fault that a server could see. Without its views it is one."""
    files = [body.get(key) for key in ("mesh", "views", "file") if key in body]
    contents = [one for file in files for one in (file if isinstance(file, list) else [file])]
    if any(content is None or isinstance(content, (bool, int, float)) for content in contents):
        body.pop("views", None)


def name_inputs(body: Dict[str, Any]) -> None:
    """With what is there, in whatever way they were named."""
    if isinstance(body.get("spec"), str):
        body["spec"] = SPEC
    if isinstance(body.get("arrays"), str):
        body["arrays"] = BLOB
    if isinstance(body.get("file"), list):
        # All are sent with the same filename, which only one may have.
        body["file"] = body["file"][:1]
    for key in ("mesh", "views"):
        source = body.get(key)
        if isinstance(source, dict) and "files" in source:
            # A schema counts characters, a file system bytes.
            names = [name for name in source["files"] if len(name.encode()) <= 255] or ["mesh.obj"]
            # Nor can it say that no file is another's folder, or another's name with "./" in it.
            plain = {"/".join(part for part in name.split("/") if part not in ("", ".")): name for name in names}
            names = [name for path, name in plain.items() if not any(path.startswith(other + "/") for other in plain)]
            source["files"], source["main"] = dict.fromkeys(names, BLOB), names[0]
        elif isinstance(source, dict) and "path" in source:
            source["path"] = os.environ["KILN_TEST_PATH"]
            if "images" in source:
                model = os.environ["KILN_TEST_MODEL"]
                source["path"], source["images"] = f"{model}/images.txt", f"{model}/images"
    if isinstance(body.get("mesh"), dict) and body.get("views") is None:
        # Splats alone. That the main file is one of the files is what a schema cannot say.
        body["mesh"] = {"files": {"splats.ply": BLOB}, "main": "splats.ply"}
