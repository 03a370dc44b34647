"""The real `kiln serve`: found, started, shared by threads, not by forks, gone with its process, and back after a death."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import support

support.isolate()

from kiln import Cancelled, Client, JobFailed, RequestProblem, SidecarUnavailable, client as clients, sidecar  # noqa: E402

SPOT = support.ROOT / "tests/data/spot"
#: For what must happen and takes no time but for a busy machine.
SOON = 60


def ends(pid: int) -> bool:
    """Whether a process that is no child of ours is gone, or only waits to be reaped, soon."""
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def run(test: unittest.TestCase, code: str, **options) -> "subprocess.Popen[str]":
    """A program of its own, which prints lines of JSON; `pid` is that of its sidecar."""
    head = """
        import json, os, signal, sys, threading
        import kiln
        from kiln import sidecar
        def say(*what): print(json.dumps(what), flush=True)
        def pid(): return sidecar._private._process.pid
    """
    program = textwrap.dedent(head) + textwrap.dedent(code)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, **options)
    # In the opposite order: ended, even where the test failed half-way.
    for clean in (process.stdout.close, process.wait, process.kill):
        test.addCleanup(clean)
    return process


def heard(process) -> list:
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"the program ended with {process.wait()}")
    return json.loads(line)


class Private(unittest.TestCase):
    def test_all_threads_get_one_and_it_ends_with_the_process(self):
        program = run(self, """
            found = []
            threads = [threading.Thread(target=lambda: found.append(sidecar.find().path)) for _ in range(8)]
            [thread.start() for thread in threads]; [thread.join() for thread in threads]
            say(pid(), sorted(set(found)), os.path.dirname(found[0]))
        """)
        pid, found, folder = heard(program)
        self.assertEqual(len(found), 1)
        self.assertEqual(program.wait(SOON), 0)
        self.assertTrue(ends(pid))
        self.assertFalse(os.path.exists(folder))

    def test_it_dies_with_a_killed_process_but_not_with_the_thread_that_asked(self):
        program = run(self, """
            asked = []
            thread = threading.Thread(target=lambda: (sidecar.find(), asked.append(pid())))
            thread.start(); thread.join()
            # Python's thread is over a little before the kernel's, which is the one that counts.
            while os.path.exists(f"/proc/self/task/{thread.native_id}"): pass
            ready, _ = sidecar.find().client().is_ready()
            say(pid(), ready and asked == [pid()], sidecar._private.folder)
            threading.Event().wait()
        """)
        pid, ready, folder = heard(program)
        self.assertTrue(ready)
        program.kill()
        program.wait()
        self.assertTrue(ends(pid))
        # Nobody was there to remove the folder: the next one does.
        self.assertTrue(os.path.exists(folder))
        sidecar._sweep()
        self.assertFalse(os.path.exists(folder))

    def test_a_fork_has_its_own_and_leaves_its_parents_alone(self):
        program = run(self, """
            sidecar.find(); parent = pid()
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                sidecar.find()
                os.write(write, str(pid()).encode())
                sys.exit(0)
            os.waitpid(child, 0)
            say(parent, int(os.read(read, 99)), sidecar.find().client().is_ready()[0], pid() == parent)
        """)
        parent, child, ready, same = heard(program)
        self.assertNotEqual(parent, child)
        self.assertTrue(ready and same)
        self.assertTrue(ends(child))
        self.assertEqual(program.wait(SOON), 0)
        self.assertTrue(ends(parent))

    def test_a_client_that_a_fork_inherits_does_not_start_its_parents_again(self):
        program = run(self, """
            client = sidecar.find().client(patience=5.0); parent = pid()
            os.kill(parent, signal.SIGKILL)
            sidecar._private._process.wait()
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                try: client.capabilities()
                except kiln.SidecarUnavailable as error: os.write(write, str(error).encode())
                os._exit(0)
            os.waitpid(child, 0)
            said = os.read(read, 999).decode()
            say(said, os.getpid(), bool(client.capabilities()), pid() != parent)
        """)
        said, owner, answers, another = heard(program)
        self.assertIn(f"that of process {owner}", said)
        self.assertTrue(answers and another)
        self.assertEqual(program.wait(SOON), 0)

    def test_ctrl_c_reaches_the_caller_and_not_the_sidecar(self):
        # As in a terminal, also where these tests run in the background of a shell, which ignores the signal there.
        program = run(self, """
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sidecar.find()
            # The signal may come as soon as the line is out, which is before the call that wrote it returns.
            try: say(pid()); threading.Event().wait()
            except KeyboardInterrupt: say(sidecar.find().client().is_ready()[0], pid())
        """, start_new_session=True)
        (pid,) = heard(program)
        os.killpg(program.pid, signal.SIGINT)
        self.assertEqual(heard(program), [True, pid])
        self.assertEqual(program.wait(SOON), 0)
        self.assertTrue(ends(pid))

    def test_a_killed_one_is_started_again_with_its_jobs(self):
        place = sidecar.find()
        client = place.client()
        job = submit(client)
        before = sidecar._private._process.pid
        os.kill(before, signal.SIGKILL)
        done = client.wait(job.id, SOON * 2).check()
        self.assertNotEqual(sidecar._private._process.pid, before)
        self.assertEqual(client.fetch(done)[:4], b"glTF")

    def test_what_cannot_start_says_why(self):
        broken = Path(tempfile.mkdtemp()) / "kiln"
        broken.write_text("#!/bin/sh\necho the library libfoo.so is missing >&2\nexit 127\n")
        broken.chmod(0o700)
        for program, why in ((broken, "libfoo.so is missing"), (broken.with_name("none"), "KILN_BIN"), ("/bin/true", "ended with 0")):
            with self.subTest(why):
                os.environ["KILN_BIN"], old = str(program), os.environ["KILN_BIN"]
                private = sidecar._Private()
                try:
                    with self.assertRaisesRegex(SidecarUnavailable, why):
                        private.ensure()
                finally:
                    os.environ["KILN_BIN"] = old
                    private.stop()

    def test_one_that_is_killed_at_its_start_is_started_once_more(self):
        folder = Path(tempfile.mkdtemp())
        program, starts = folder / "kiln", folder / "starts"
        for deaths in (1, 2):
            program.write_text(
                f'#!/bin/sh\necho one more >> {starts}\necho start $(wc -l < {starts}) >&2\n'
                f'[ $(wc -l < {starts}) -gt {deaths} ] && exec {os.environ["KILN_BIN"]} "$@"\nkill -9 $$\n'
            )
            program.chmod(0o700)
            starts.write_text("")
            os.environ["KILN_BIN"], old = str(program), os.environ["KILN_BIN"]
            private = sidecar._Private()
            try:
                if deaths == 1:
                    private.ensure()
                    self.assertTrue(Client(private.socket).is_ready()[0])
                else:
                    # What the first one said is not told again.
                    with self.assertRaisesRegex(SidecarUnavailable, "ended with -9 at its start:\nstart 2$"):
                        private.ensure()
            finally:
                os.environ["KILN_BIN"] = old
                private.stop()
            self.assertEqual(len(starts.read_text().split("\n")) - 1, 2)

    def test_a_named_socket_is_used_and_nothing_else(self):
        os.environ["KILN_SOCKET"] = "/nonexistent/kiln.sock"
        try:
            place = sidecar.find()
            self.assertEqual((place.path, place.is_private), ("/nonexistent/kiln.sock", False))
            with self.assertRaises(SidecarUnavailable):
                place.client(patience=0.1).get("a")
        finally:
            del os.environ["KILN_SOCKET"]

    def test_one_that_runs_at_the_default_place_is_shared(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_RUNTIME_DIR"], old = folder, os.environ["XDG_RUNTIME_DIR"]
            held, sidecar._private = sidecar._private, None
            server = subprocess.Popen([os.environ["KILN_BIN"], "serve", "--store", f"{folder}/store"], stderr=subprocess.DEVNULL)
            try:
                end = time.monotonic() + SOON
                while not sidecar._listens(sidecar.default_socket()) and time.monotonic() < end:
                    time.sleep(0.01)
                place = sidecar.find()
                self.assertEqual((place.path, place.is_private), (f"{folder}/kiln/kiln.sock", False))
                self.assertIsNone(sidecar._private)
            finally:
                os.environ["XDG_RUNTIME_DIR"], sidecar._private = old, held
                server.terminate()
                server.wait(SOON)

    def test_a_default_place_that_others_may_write_to_is_not_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            place, link = os.path.join(folder, "kiln"), os.path.join(folder, "link")
            os.mkdir(place)
            os.symlink(place, link)
            for mode, own, words in [
                (0o700, True, None),
                (0o755, True, None),
                (0o777, True, "written by others"),
                (0o770, True, "written by others"),
                (0o777, False, "lets everybody replace"),
                (0o770, False, None),
                (0o1777, False, None),
            ]:
                os.chmod(place, mode)
                fault = clients.folder_fault(os.path.join(place, "kiln.sock"), own)
                self.assertEqual(bool(fault), bool(words), f"{mode:o}")
                self.assertIn(words or "", fault or "")
            self.assertIn("is a link", clients.folder_fault(os.path.join(link, "kiln.sock"), True))
            os.chmod(place, 0o777)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(os.path.join(place, "kiln.sock"))
                listener.listen()
                with self.assertRaisesRegex(SidecarUnavailable, "lets everybody replace"):
                    Client(os.path.join(place, "kiln.sock"), patience=0.1).get("a")
                listener.setblocking(False)
                self.assertRaises(BlockingIOError, listener.accept)


def submit(client: Client, **options):
    """The sample, by blobs."""
    names = ["transforms.json", *(f"train/{path.name}" for path in sorted((SPOT / "train").iterdir()))]
    views = {name: client.upload((SPOT / name).read_bytes()) for name in names}
    mesh = {"mesh.glb": client.upload((SPOT / "mesh_uv.glb").read_bytes())}
    spec = {"quality": "draft", "texture_size": 256, "keep_uvs": True, **options}
    return client.submit(
        {"mesh": {"files": mesh, "main": "mesh.glb"}, "views": {"files": views, "main": "transforms.json"}, **spec}
    )


class Jobs(unittest.TestCase):
    def setUp(self):
        self.client = sidecar.find().client()

    def test_one_is_done_and_told_from_queue_to_end(self):
        job = submit(self.client, name="spot", preview=True)
        heard = []
        done = self.client.wait(job.id, SOON * 2, heard.append).check()
        self.assertEqual(heard[-1].kind, "done")
        shares = [event.data["progress"] for event in heard if event.kind == "progress"]
        self.assertTrue(shares and shares == sorted(shares) and 0 <= shares[0] and shares[-1] <= 1)
        self.assertEqual(set(done.artifacts), {"model.glb", "preview.png", "report.json"})
        self.assertEqual(json.loads(self.client.fetch(done, "report.json"))["schema"], 1)
        self.assertIn(done.id, [job.id for job in self.client.list("succeeded")])
        self.assertEqual(self.client.get(job.id).raw["name"], "spot")
        self.client.forget(done.id)
        with self.assertRaises(RequestProblem) as raised:
            self.client.get(done.id)
        self.assertIn(raised.exception.code, ("gone", "not_found"))

    def test_one_that_cannot_be_done_says_why(self):
        job = submit(self.client, device="a card that nobody has")
        with self.assertRaises(JobFailed) as raised:
            self.client.wait(job.id, SOON * 2).check()
        error = raised.exception
        self.assertEqual((error.code, error.class_, error.report["exit_code"]), ("no_adapter", "config", 69))
        self.assertTrue(error.message and error.attempts)

    def test_one_that_is_cancelled_is_told_as_that(self):
        job = submit(self.client, quality="best", texture_size=2048)
        watched = threading.Thread(target=self.client.cancel, args=(job.id,))
        watched.start()
        with self.assertRaises(Cancelled):
            self.client.wait(job.id, SOON * 2).check()
        watched.join()

    def test_the_same_key_is_the_same_job(self):
        spec = json.loads(json.dumps(submit(self.client).raw["spec"]))
        first, second = (self.client.submit(spec, key="one key for both") for _ in range(2))
        self.assertEqual(first.id, second.id)
        with self.assertRaises(RequestProblem) as raised:
            self.client.submit({**spec, "seed": 5}, key="one key for both")
        self.assertEqual(raised.exception.code, "idempotency_key_reused")
        self.assertTrue(self.client.capabilities()["limits"]["views"] > 0)

    def test_a_spec_that_is_wrong_names_its_key(self):
        with self.assertRaises(RequestProblem) as raised:
            submit(self.client, texture_size=1023)
        self.assertEqual((raised.exception.field, raised.exception.code), ("texture_size", "invalid_spec"))


if __name__ == "__main__":
    unittest.main()
