"""The client against a server that refuses, breaks off and lies by script."""

import json
import os
import pickle
import socket
import tempfile
import threading
import time
import unittest

import kiln
from kiln import Client, RequestProblem, SidecarUnavailable, TimedOut, safetensors

import numpy as np

JOB = {"id": "a" * 32, "state": "queued"}


class Fake:
    """Answers connection n by step n of its script; remembers each request's head and body."""

    def __init__(self, *script):
        self._listener = self.listen()
        self.seen = []
        self._thread = threading.Thread(target=self._serve, args=(script,), daemon=True)
        self._thread.start()

    def listen(self):
        self.path = os.path.join(tempfile.mkdtemp(), "s")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(16)
        return listener

    def _serve(self, script):
        for step in script:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as reader:
                try:
                    step(self, connection, reader)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # The client has what it wants, or has had enough.
        self._listener.close()

    def read(self, reader, body=True):
        request = reader.readline().decode().split()
        headers = {}
        for line in iter(reader.readline, b"\r\n"):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        self.seen.append((request[0], request[1], headers, reader.read(int(headers.get("content-length", 0))) if body else None))

    def close(self):
        self._thread.join(10)
        assert not self._thread.is_alive(), "the client asked less often than the script has steps"


def answer(status, value=b"", **headers):
    """Reads the request and answers it."""

    def step(fake, connection, reader):
        fake.read(reader)
        connection.sendall(text(status, value, **headers))

    return step


def text(status, value=b"", **headers):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {content}" for name, content in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def hang_up(fake, connection, reader):
    fake.read(reader)


def events(*lines, cut=False):
    """A chunked stream of events; cut off in the middle of a chunk, or ended in order."""

    def step(fake, connection, reader):
        fake.read(reader)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in lines:
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line.encode()))
        connection.sendall(b"ff\r\nid: 99\r\nda" if cut else b"0\r\n\r\n")

    return step


def event(number, kind, **data):
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


class Requests(unittest.TestCase):
    def fake(self, *script):
        server = Fake(*script)
        self.addCleanup(server.close)
        return server, Client(server.path, patience=20, timeout=10)

    def test_a_job_is_sent_again_with_the_same_key_and_the_same_bytes(self):
        problem = {"code": "queue_full", "detail": "64 jobs wait", "retryable": True}

        def in_the_middle(fake, connection, reader):
            fake.read(reader, body=False)
            reader.read(1000)

        server, client = self.fake(
            hang_up, in_the_middle, answer(429, problem, Retry_After="0"), answer(503, b"<html>", Retry_After="0"), answer(202, JOB)
        )
        arrays = safetensors.encode({"a": [np.arange(1 << 20, dtype="u1")] * 3})
        job = client.submit({"texture_size": 512}, arrays)
        self.assertEqual((job.id, job.state), (JOB["id"], "queued"))
        self.assertEqual(len({seen[2]["idempotency-key"] for seen in server.seen}), 1)
        self.assertEqual({seen[1] for seen in server.seen}, {"/v1/jobs?spec=%7B%22texture_size%22%3A512%7D"})
        self.assertEqual({seen[2]["content-type"] for seen in server.seen}, {"application/safetensors"})
        whole = b"".join(arrays)
        self.assertEqual([seen[3] == whole for seen in server.seen if seen[3] is not None], [True] * 4)

    def test_two_jobs_have_two_keys(self):
        server, client = self.fake(answer(202, JOB), answer(202, JOB))
        client.submit({})
        client.submit({})
        first, second = (seen[2]["idempotency-key"] for seen in server.seen)
        self.assertNotEqual(first, second)

    def test_it_waits_as_long_as_it_is_told_to(self):
        _, client = self.fake(answer(429, {}, Retry_After="1"), answer(200, JOB))
        began = time.monotonic()
        client.get(JOB["id"])
        self.assertGreaterEqual(time.monotonic() - began, 1)

    def test_a_refusal_is_told_at_once_even_if_the_body_was_not_read(self):
        problem = {"code": "invalid_spec", "field": "texture_size", "detail": "must be a multiple of 4", "retryable": False}

        def early(fake, connection, reader):
            fake.read(reader, body=False)
            connection.sendall(text(422, problem))

        server, client = self.fake(early)
        with self.assertRaises(RequestProblem) as raised:
            client.submit({"texture_size": 511}, [memoryview(bytes(64 << 20))])
        error = raised.exception
        self.assertEqual((error.status, error.code, error.field, error.retryable), (422, "invalid_spec", "texture_size", False))
        self.assertIn("multiple of 4", str(error))
        self.assertEqual(len(server.seen), 1)

    def test_patience_ends(self):
        client = Client("/nonexistent/kiln.sock", patience=0.3)
        with self.assertRaisesRegex(SidecarUnavailable, "/nonexistent/kiln.sock"):
            client.get("a")
        server, client = self.fake(*[answer(503, {"code": "draining", "detail": "leaves"}, Retry_After="30")])
        with self.assertRaises(RequestProblem) as raised:
            client.get("a")
        self.assertEqual(raised.exception.code, "draining")

    def test_who_does_not_answer_is_left_when_time_is_up(self):
        released = threading.Event()

        def silent(fake, connection, reader):
            fake.read(reader)
            released.wait(10)

        _, client = self.fake(silent)
        with self.assertRaises(TimedOut) as raised:
            client.wait("a", timeout=2.0)
        released.set()
        self.assertIsInstance(raised.exception, TimeoutError)

    def test_a_stream_is_taken_up_where_it_broke_off(self):
        done = {**JOB, "state": "succeeded"}
        server, client = self.fake(
            events("retry: 1000\n" + event(1, "state", state="preparing"), ": still here\n\n", event(2, "progress", progress=0.5), cut=True),
            events(event(3, "progress", progress=0.7)),
            hang_up,
            events(event(4, "done", **done)),
            answer(200, done),
        )
        heard = []
        job = client.wait(JOB["id"], on_event=heard.append)
        self.assertEqual([(each.id, each.kind) for each in heard], [(1, "state"), (2, "progress"), (3, "progress"), (4, "done")])
        self.assertEqual([seen[2].get("last-event-id") for seen in server.seen], [None, "2", "3", "3", None])
        self.assertEqual(job.check().state, "succeeded")

    def test_a_stream_that_is_over_is_not_waited_for(self):
        failed = {**JOB, "state": "failed", "error": {"code": "worker_crashed", "class": "ambiguous", "message": "bake died",
                  "hint": "see the log", "attempts": [{"role": "bake"}], "log_tail": ["SIGSEGV"]}}
        _, client = self.fake(answer(204), answer(200, failed))
        with self.assertRaises(kiln.JobFailed) as raised:
            client.wait(JOB["id"]).check()
        error = raised.exception
        self.assertEqual((error.code, error.class_, error.hint, error.log_tail), ("worker_crashed", "ambiguous", "see the log", ["SIGSEGV"]))
        self.assertEqual(str(error), "bake died: see the log (worker_crashed)")

    def test_a_file_that_arrives_damaged_or_in_part_is_fetched_again(self):
        import hashlib

        good = b"glTF" * 1000
        artifact = {"name": "model.glb", "sha256": hashlib.sha256(good).hexdigest(), "href": "/v1/jobs/a/artifacts/model.glb"}
        job = kiln.Job({**JOB, "state": "succeeded", "artifacts": [artifact]})

        def short(fake, connection, reader):
            fake.read(reader)
            connection.sendall(text(200, good)[:-1])

        _, client = self.fake(short, answer(200, good[:-1] + b"x"), answer(200, good))
        self.assertEqual(client.fetch(job), good)
        with self.assertRaisesRegex(KeyError, "preview.png"):
            client.fetch(job, "preview.png")

    def test_a_blob_that_is_there_is_not_sent(self):
        server, client = self.fake(answer(200), answer(404), answer(201))
        self.assertEqual(client.upload(b"x"), client.upload(b"x"))
        self.assertEqual([seen[0] for seen in server.seen], ["HEAD", "HEAD", "PUT"])

    def test_a_list_goes_on_over_pages(self):
        pages = {"jobs": [{**JOB, "id": "1"}], "cursor": "1"}, {"jobs": [{**JOB, "id": "2"}], "cursor": None}
        server, client = self.fake(*(answer(200, page) for page in pages))
        self.assertEqual([job.id for job in client.list("queued")], ["1", "2"])
        self.assertEqual(server.seen[1][1], "/v1/jobs?state=queued&cursor=1")

    def test_somebody_is_fetched_where_nobody_listens(self):
        server, _ = self.fake(answer(200, JOB))
        calls = []
        client = Client("/nonexistent/kiln.sock", patience=0.3)

        def revive(deadline):
            calls.append(1)
            client.address = server.path

        client._revive = revive
        self.assertEqual(client.get("a").id, JOB["id"])
        client.address, client._revive = "/nonexistent/kiln.sock", lambda deadline: calls.append(2)
        with self.assertRaises(SidecarUnavailable):
            client.get("a")
        self.assertEqual(calls[:3], [1, 2, 2], "as long as there is patience")

    def test_who_was_fetched_and_is_gone_again_is_fetched_again(self):
        server, _ = self.fake(answer(200, JOB))
        calls = []

        def revive(deadline):
            calls.append(1)
            if len(calls) == 3:
                client.address = server.path

        client = Client("/nonexistent/kiln.sock", patience=5.0, revive=revive)
        self.assertEqual(client.get("a").id, JOB["id"])
        self.assertEqual(len(calls), 3)


class Errors(unittest.TestCase):
    def test_they_cross_processes(self):
        for error in (
            kiln.JobFailed("a", {"code": "gpu_hang", "message": "m", "log_tail": ["x"]}),
            kiln.RequestProblem(422, {"code": "invalid_spec", "field": "seed", "detail": "d"}),
            kiln.Cancelled("a"),
            kiln.SidecarUnavailable("gone"),
            kiln.TimedOut("late"),
        ):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.__dict__), (type(error), str(error), error.__dict__))
            self.assertIsInstance(again, kiln.KilnError)


if __name__ == "__main__":
    unittest.main()
