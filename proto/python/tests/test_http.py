"""The client over TCP and TLS, with a token; and on a system that has nothing of Unix."""

import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import support

support.isolate()

import kiln  # noqa: E402
from kiln import Client, RequestProblem, SidecarUnavailable, TimedOut  # noqa: E402
from test_client import JOB, Fake, answer, event, events  # noqa: E402

SPOT = support.ROOT / "tests/data/spot"
TOKEN = "a token that nobody guesses 0123456789".replace(" ", "-")
#: Run where `import kiln` finds nothing that Windows has not; what it imports itself is there before.
WITHOUT_UNIX = """
import asyncio, os, socket, subprocess, sys, tempfile, numpy
sys.modules["fcntl"] = None
for module, names in ((socket, "AF_UNIX SO_PEERCRED"), (os, "getuid register_at_fork O_DIRECTORY O_CLOEXEC O_NOFOLLOW fork")):
    for name in names.split():
        delattr(module, name)
import kiln
def said(call, *arguments):
    try: call(*arguments)
    except kiln.SidecarUnavailable as error: return str(error)
"""


class Tls(Fake):
    """A `Fake` at https://localhost, with a certificate that nobody else trusts."""

    def __init__(self, folder, *script):
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        self.certificate = f"{folder}/cert.pem"
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *names]
        subprocess.run([*made, "-keyout", f"{folder}/key.pem", "-out", self.certificate], check=True, capture_output=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, f"{folder}/key.pem")
        super().__init__(*(self.sealed(step) for step in script))

    def listen(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.path = f"https://localhost:{listener.getsockname()[1]}"
        return listener

    def sealed(self, step):
        def sealed(fake, connection, reader):
            try:
                with self._context.wrap_socket(connection, server_side=True) as inner, inner.makefile("rb") as words:
                    step(fake, inner, words)
            except OSError:
                pass  # Not trusted, or no TLS, or over.

        return sealed


class ByTls(unittest.TestCase):
    def fake(self, *script):
        folder = tempfile.mkdtemp()
        server = Tls(folder, *script)
        self.addCleanup(server.close)
        os.environ["SSL_CERT_FILE"] = server.certificate
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        return server

    def test_token_host_and_path_are_those_of_the_url_and_files_come_whole(self):
        import hashlib

        data = os.urandom(3 << 20)
        artifact = {"name": "model.glb", "sha256": hashlib.sha256(data).hexdigest(), "href": "/v1/a"}
        done = {**JOB, "state": "succeeded", "artifacts": [artifact]}
        server = self.fake(answer(404), answer(201), events(event(1, "done", **done)), answer(200, done), answer(200, data))
        client = Client(server.path + "/kiln/", TOKEN + "\n")
        client.upload(data)
        self.assertEqual(client.fetch(client.wait("a")), data)
        paths = ["/kiln/v1/blobs/" + artifact["sha256"]] * 2 + ["/kiln/v1/jobs/a/events", "/kiln/v1/jobs/a", "/kiln/v1/a"]
        self.assertEqual([seen[1] for seen in server.seen], paths)
        self.assertEqual({seen[2]["authorization"] for seen in server.seen}, {f"Bearer {TOKEN}"})
        self.assertEqual({"https://" + seen[2]["host"] for seen in server.seen}, {server.path})
        self.assertEqual(server.seen[1][3], data)

    def test_a_deadline_ends_it(self):
        over = threading.Event()

        def trickle(fake, connection, reader):
            fake.read(reader)
            for _ in range(500):
                if over.wait(0.02):
                    break
                connection.sendall(b"H")

        server = self.fake(trickle)
        began = time.monotonic()
        with self.assertRaises(TimedOut):
            Client(server.path).get("a", deadline=began + 0.5)
        over.set()
        self.assertLess(time.monotonic() - began, 9)

    def test_who_is_not_trusted_is_told_at_once_and_shown_no_token(self):
        server = self.fake(answer(200, JOB))
        del os.environ["SSL_CERT_FILE"]
        client = Client(server.path, TOKEN)
        os.environ["SSL_CERT_FILE"] = server.certificate
        began = time.monotonic()
        with self.assertRaisesRegex(SidecarUnavailable, f"{server.path} is not trusted.*self.signed"):
            client.get("a")
        self.assertLess(time.monotonic() - began, 9)
        self.assertEqual(server.seen, [])


class ByTcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = Path(tempfile.mkdtemp())
        (folder / "token").touch(0o600)
        (folder / "token").write_text(TOKEN + "\n")
        places = ["--socket", f"{folder}/s", "--store", f"{folder}/store", "--tcp", "127.0.0.1:0", "--token-file", f"{folder}/token"]
        cls.server = subprocess.Popen([os.environ["KILN_BIN"], "serve", *places], stderr=subprocess.PIPE, text=True)
        said = []
        for line in cls.server.stderr:
            said.append(line)
            if line.startswith("kiln: serves"):
                break
        cls.url = re.search(r"http://127\.0\.0\.1:\d+", "".join(said))[0]

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.communicate()

    def test_files_are_baked_with_the_token_and_not_without(self):
        client = Client(self.url, TOKEN)
        heard = []
        glb = kiln.bake(
            SPOT / "mesh_nouv.glb", SPOT, client=client, quality="draft", texture_size=256, progress=lambda *each: heard.append(each)
        )
        self.assertEqual(glb.texture().shape, (256, 256, 3))
        self.assertTrue(heard)
        self.assertIn(glb.job["id"], [job.id for job in client.list("succeeded")])
        for wrong in ("", "x" * 40):
            with self.assertRaises(RequestProblem) as raised:
                Client(self.url, wrong).get("a")
            self.assertEqual((raised.exception.status, raised.exception.code), (401, "unauthorized"))
            self.assertNotIn("xxx", repr(raised.exception))

    def test_a_system_without_unix_bakes_elsewhere_and_says_what_it_cannot(self):
        code = WITHOUT_UNIX + f"""
print(said(kiln.Client("/x/kiln.sock").get, "a"))
print(said(kiln.bake, {str(SPOT / 'mesh_nouv.glb')!r}, {str(SPOT)!r}))
os.environ["KILN_URL"], os.environ["KILN_TOKEN"] = {self.url!r}, {TOKEN!r}
kiln.bake({str(SPOT / 'mesh_nouv.glb')!r}, {str(SPOT)!r}, "out.glb", quality="draft", texture_size=256)
"""
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            said = run.stdout.splitlines()
            self.assertEqual(len(said), 2)
            self.assertIn("/x/kiln.sock is a Unix socket, which only Linux has", said[0])
            self.assertIn("KILN_URL", said[1])
            self.assertEqual(Path(folder, "out.glb").read_bytes()[:4], b"glTF")


class Addresses(unittest.TestCase):
    def test_nobody_there_is_told_with_the_address_however_little_time_there_is(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            url = f"http://127.0.0.1:{gone.getsockname()[1]}"
        for address in (url, "/nonexistent/kiln.sock"):
            began = time.monotonic()
            for call in (
                lambda client: client.get("a", deadline=time.monotonic() + 0.5),
                lambda client: client.is_ready(),
                lambda client: kiln.bake(SPOT / "mesh_nouv.glb", SPOT, client=client, timeout=0.5),
            ):
                with self.assertRaisesRegex(SidecarUnavailable, f"^no sidecar answers at {address}: [A-Z][a-z]+ [a-z ]+$"):
                    call(Client(address))
            self.assertLess(time.monotonic() - began, 9)

    def test_what_is_no_address_or_token_is_refused_and_not_shown(self):
        for wrong in ("ftp://h", "http://", "http://h:port", "http://h:99999", "https://me:secret@h", "http://h/#token=secret", "http://h?token=secret"):
            with self.subTest(wrong), self.assertRaises(ValueError) as raised:
                Client(wrong)
            self.assertNotIn("secret", str(raised.exception))
        for wrong in ("secret\nsecret", "s\u00e9cret", "secret\r\nHost: x"):
            with self.subTest(wrong), self.assertRaises(ValueError) as raised:
                Client("http://h", wrong)
            self.assertNotIn("secret", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
