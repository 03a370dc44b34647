"""A sidecar that stops, trickles and lies, callers that fork, interrupt and write at once: each ends in time, with a true word."""

import asyncio
import hashlib
import os
import signal
import tempfile
import threading
import time
import unittest

import numpy as np
import support

support.isolate()

import kiln  # noqa: E402
from kiln import Client, Glb, SidecarUnavailable, TimedOut, sidecar  # noqa: E402
from test_client import JOB, Fake, answer, event, events  # noqa: E402

#: What a busy machine may add to a time that is kept.
SLACK = 8.0
#: A triangle and one view of it, as `bake_texture` takes them.
_CORNERS, _VIEW = np.eye(3, dtype=np.float32), np.zeros((4, 4, 3), np.uint8)
ARRAYS = (_CORNERS, np.array([[0, 1, 2]]), _CORNERS[:, :2], [_VIEW], [_VIEW[..., 0] == 0], [np.eye(4, dtype=np.float32)], [_CORNERS])
HEAD = b"HTTP/1.1 200 OK\r\n"


class Faults(unittest.TestCase):
    def setUp(self):
        #: Set at the end: what waits for it in a script goes on then.
        self.over = threading.Event()
        self.heard = threading.Event()

    def fake(self, *script, **options):
        server = Fake(*script)
        self.addCleanup(server.close)
        self.addCleanup(self.over.set)
        return server, Client(server.path, **{"patience": 20, "timeout": 10, **options})

    def silent(self, fake, connection, reader):
        """Never answers, and never hangs up."""
        fake.read(reader)
        self.addCleanup(connection.dup().close)
        self.heard.set()

    def bytes(self, *parts):
        """Answers with these bytes, and closes."""

        def step(fake, connection, reader):
            fake.read(reader)
            connection.sendall(b"".join(parts))

        return step

    def flood(self, head, part):
        """Answers without an end, as long as anybody reads."""

        def step(fake, connection, reader):
            fake.read(reader)
            connection.sendall(head)
            while not self.over.is_set():
                connection.sendall(part)

        return step

    def trickle(self, head, part):
        """The same, slowly: no single read waits long."""

        def step(fake, connection, reader):
            fake.read(reader)
            connection.sendall(head)
            while not self.over.wait(0.02):
                connection.sendall(part)

        return step

    def in_time(self, seconds, call):
        began = time.monotonic()
        try:
            return call()
        finally:
            self.assertLess(time.monotonic() - began, seconds + SLACK)

    def bake(self, server, **options):
        """A call of `bake_texture`, whose arrays the script does not look at."""
        os.environ["KILN_SOCKET"] = server.path
        self.addCleanup(os.environ.pop, "KILN_SOCKET", None)
        return kiln.bake_texture(*ARRAYS, 64, **options)


class Time(Faults):
    def test_a_timeout_counts_for_the_cancel_that_follows_it_too(self):
        server, _ = self.fake(answer(202, JOB), self.silent, self.silent)
        with self.assertRaises(TimedOut):
            self.in_time(1.0, lambda: self.bake(server, timeout=1.0))
        self.assertEqual(server.seen[-1][1], f"/v1/jobs/{JOB['id']}/cancel")

    def test_a_job_that_the_sidecar_ends_for_its_timeout_is_told_in_the_words_of_the_caller(self):
        for code, kind in (("deadline_exceeded", TimedOut), ("gpu_hang", kiln.JobFailed)):
            failed = {**JOB, "state": "failed", "error": {"code": code, "message": "out of time", "hint": "raise --timeout"}}
            server, _ = self.fake(answer(202, JOB), events(event(1, "done", **failed)), answer(200, failed))
            with self.assertRaises(kiln.KilnError) as raised:
                self.bake(server, timeout=60.0)
            self.assertIs(type(raised.exception), kind)
            self.assertEqual("its timeout of 60 s" in str(raised.exception), kind is TimedOut)
            self.assertEqual("--timeout" in str(raised.exception), kind is not TimedOut)

    def test_a_timeout_counts_for_the_file_too(self):
        done = {**JOB, "state": "succeeded", "artifacts": [{"name": "model.glb", "sha256": "0", "href": "/v1/a"}]}
        server, _ = self.fake(answer(202, JOB), events(event(1, "done", **done)), answer(200, done), self.silent)
        with self.assertRaises(TimedOut):
            self.in_time(1.0, lambda: self.bake(server, timeout=1.0))
        self.assertEqual(server.seen[-1][1], "/v1/a")

    def test_a_timeout_counts_while_events_come(self):
        server, client = self.fake(self.trickle(HEAD + b"Content-Type: text/event-stream\r\n\r\n", event(1, "progress", progress=0.5).encode()))
        with self.assertRaises(TimedOut):
            self.in_time(1.0, lambda: client.wait("a", timeout=1.0))

    def test_a_sidecar_that_is_not_ready_takes_no_more_time_than_there_is(self):
        folder = tempfile.mkdtemp()
        program = os.path.join(folder, "kiln")
        with open(program, "w") as file:
            file.write("#!/bin/sh\nexec sleep 600\n")
        os.chmod(program, 0o700)
        os.environ["KILN_BIN"], old = program, os.environ["KILN_BIN"]
        private = sidecar._Private()
        try:
            with self.assertRaisesRegex(TimedOut, "still starts"):
                self.in_time(0.5, lambda: private.ensure(time.monotonic() + 0.5))
            first = private._process.pid
            with self.assertRaisesRegex(TimedOut, "still starts"):
                self.in_time(0.1, lambda: private.ensure(time.monotonic() + 0.1))
            self.assertEqual(private._process.pid, first, "it goes on starting")
        finally:
            os.environ["KILN_BIN"] = old
            private._process.kill()
            private.stop()

    def test_ctrl_c_returns_at_once_and_says_so(self):
        def interrupted(fake, connection, reader):
            self.silent(fake, connection, reader)
            os.kill(os.getpid(), signal.SIGINT)

        server, _ = self.fake(answer(202, JOB), interrupted, self.silent)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.in_time(1.0, lambda: self.bake(server))
        finally:
            signal.signal(signal.SIGINT, handler)
        self.assertEqual(server.seen[-1][1], f"/v1/jobs/{JOB['id']}/cancel")

    def test_a_task_that_is_cancelled_does_not_wait_for_the_sidecar(self):
        server, _ = self.fake(answer(202, JOB), self.silent, self.silent)

        async def go():
            loop = asyncio.get_running_loop()
            task = asyncio.ensure_future(kiln.abake_texture(*ARRAYS, 64, timeout=30.0))
            await loop.run_in_executor(None, self.heard.wait, 60)
            task.cancel()
            began = time.monotonic()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertLess(time.monotonic() - began, SLACK)

        os.environ["KILN_SOCKET"] = server.path
        try:
            asyncio.run(go())
        finally:
            del os.environ["KILN_SOCKET"]


class Trickles(Faults):
    """No single read waits long, and the whole ends all the same."""

    def test_heads(self):
        _, client = self.fake(self.trickle(HEAD, b"X"), timeout=0.3, patience=0.1)
        with self.assertRaises(SidecarUnavailable):
            self.in_time(1.0, lambda: client.get("a"))

    def test_bodies(self):
        for length in (b"Content-Length: 1000000\r\n\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
            with self.subTest(length):
                part = b"1\r\nx\r\n" if b"chunked" in length else b"x"
                _, client = self.fake(self.trickle(HEAD + length, part), timeout=0.3, patience=0.1)
                with self.assertRaises(SidecarUnavailable):
                    self.in_time(1.0, lambda: client.get("a"))

    def test_a_deadline_ends_each(self):
        for head in (HEAD, HEAD + b"Content-Length: 1000000\r\n\r\n"):
            with self.subTest(head):
                _, client = self.fake(self.trickle(head, b"x"), timeout=60)
                with self.assertRaises(TimedOut):
                    self.in_time(0.5, lambda: client.get("a", deadline=time.monotonic() + 0.5))


class Lies(Faults):
    """What cannot be is asked for once more; what is then told is believed."""

    def again(self, *lies):
        for lie in lies:
            with self.subTest(lie=lie):
                server, client = self.fake(lie, answer(200, JOB))
                self.assertEqual(self.in_time(2.0, lambda: client.get("a")).id, JOB["id"])
                self.assertEqual(len(server.seen), 2)

    def test_lengths(self):
        self.again(
            self.bytes(HEAD + b"Content-Length: 5\r\n\r\n", b'{"id": "a", "state": "queued"}'),
            self.bytes(HEAD + b"Content-Length: 500\r\n\r\n", b'{"id": "a", "state": "queued"}'),
            self.bytes(HEAD + b"Content-Length: 1000000000000000000\r\n\r\n", b"{"),
            self.bytes(HEAD + b"Content-Length: many\r\n\r\n", b"{"),
            self.bytes(HEAD + b"Content-Length: 20\r\n"),
            self.bytes(b""),
        )

    def test_what_has_no_end(self):
        self.again(
            self.flood(HEAD, b"X-More: yes\r\n"),
            self.flood(HEAD + b"X-Long: ", b"x" * 4096),
            self.flood(HEAD + b"\r\n", b" " * 65536),
            self.flood(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
        )

    def test_chunks(self):
        head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        self.again(
            self.bytes(head, b"zz\r\n{}\r\n0\r\n\r\n"),
            self.bytes(head, b"ffffffffffffff\r\n{}"),
            self.bytes(head, b"-5\r\n{}\r\n"),
            self.bytes(head, b"5\r\n{}"),
        )

    def test_what_is_no_job(self):
        self.again(*(answer(200, lie) for lie in (b"", b"{", b"\xff\xfe", b"[" * 100000, [1], {}, {"id": 1, "state": "queued"}, b"NaN")))

    def test_a_refusal_that_is_no_json_and_a_pause_that_is_no_number(self):
        for lie in (b"[1]", b"{", b"\xff"):
            _, client = self.fake(answer(404, lie))
            with self.assertRaises(kiln.RequestProblem) as raised:
                client.get("a")
            self.assertEqual(raised.exception.status, 404)
        for pause in (b"\xb2", b"9" * 5000, b"-1", b"soon"):
            self.again(self.bytes(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\nRetry-After: " + pause + b"\r\n\r\n"))

    def test_a_list_that_is_none(self):
        _, client = self.fake(answer(200, {}), answer(200, {"jobs": []}))
        self.assertEqual([*client.list()], [])

    def test_a_file_that_is_longer_than_it_says(self):
        good = b"glTF" * 1000
        artifact = {"name": "model.glb", "sha256": hashlib.sha256(good).hexdigest(), "href": "/v1/a"}
        job = kiln.Job({**JOB, "state": "succeeded", "artifacts": [artifact]})
        _, client = self.fake(self.bytes(HEAD + b"Content-Length: 3999\r\n\r\n", good), answer(200, good + b"x"), answer(200, good))
        self.assertEqual(client.fetch(job), good)

    def test_streams(self):
        done = {**JOB, "state": "succeeded"}
        head = HEAD + b"Content-Type: text/event-stream\r\n\r\n"
        for lie in (
            self.flood(head + b"data: ", b"x" * 65536),
            self.flood(head, (b"data: " + b"x" * 1018 + b"\n") * 64),
            self.bytes(head, b"id: \xc2\xb2\nevent: progress\ndata: {\n\n"),
            self.bytes(head, b"data: [1]\n\n"),
            self.bytes(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
            self.bytes(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"-5\r\n"),
        ):
            with self.subTest(lie=lie):
                _, client = self.fake(lie, events(event(1, "done", **done)), answer(200, done))
                self.assertEqual(self.in_time(2.0, lambda: client.wait("a")).state, "succeeded")

    def test_readiness(self):
        for lie in (self.bytes(b"garbage\r\n\r\n"), self.bytes(b""), answer(200, [1]), answer(200, b"{")):
            with self.subTest(lie=lie):
                server, client = self.fake(lie)
                with self.assertRaisesRegex(SidecarUnavailable, server.path):
                    client.is_ready()
        _, client = self.fake(answer(503, {"reasons": 1}))
        self.assertEqual(client.is_ready(), (False, []))


class Files(unittest.TestCase):
    def test_a_model_that_many_threads_write_is_one_of_theirs_and_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.glb")
            models = [Glb(bytes([number]) * (1 << 20)) for number in range(8)]
            start, errors = threading.Barrier(len(models)), []

            def write(model):
                for _ in range(10):
                    start.wait()
                    try:
                        model.export(path)
                    except OSError as error:
                        errors.append(error)

            threads = [threading.Thread(target=write, args=(model,)) for model in models]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual(errors, [])
            with open(path, "rb") as file:
                self.assertIn(file.read(), [model.data for model in models])
            self.assertEqual(os.listdir(folder), ["model.glb"])
            mask = os.umask(0)
            os.umask(mask)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o666 & ~mask)

    def test_a_model_that_cannot_be_written_leaves_nothing_and_names_its_path(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (os.path.join(folder, "absent", "model.glb"), folder + "/taken.glb"):
                os.makedirs(folder + "/taken.glb/x", exist_ok=True)
                with self.assertRaises(OSError) as raised:
                    Glb(b"x").export(path)
                self.assertIn(path, (raised.exception.filename, raised.exception.filename2))
            self.assertEqual(os.listdir(folder), ["taken.glb"])

    def test_a_name_may_be_as_long_as_the_file_system_has_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m" * 251 + ".glb")
            Glb(b"x").export(path)
            self.assertTrue(os.path.exists(path))


class Places(unittest.TestCase):
    def test_no_folder_for_a_sidecar_is_said(self):
        before = tempfile.tempdir
        with tempfile.NamedTemporaryFile() as file:
            for place in ("/nonexistent/folder", file.name, "/proc"):
                tempfile.tempdir = place
                try:
                    with self.assertRaisesRegex(SidecarUnavailable, "TMPDIR"):
                        sidecar._Private()
                finally:
                    tempfile.tempdir = before


if __name__ == "__main__":
    unittest.main()
