"""A job through a real NATS server, a folder as store, and one host with the real programs."""

import os
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import support

support.isolate()

import kiln  # noqa: E402
from kiln import Client, SidecarUnavailable, sidecar  # noqa: E402

SPOT = support.ROOT / "tests/data/spot"
NATS = support.ROOT / "target/fleet/bin/nats-server"
OPTIONS = {"texture_size": 256, "quality": "draft", "device": "cpu"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Fleet(unittest.TestCase):
    def start(self, *command, **environment) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for clean in (process.wait, process.terminate):
            self.addCleanup(clean)
        return process

    def test_a_client_of_queue_and_store_bakes_as_one_of_a_sidecar(self):
        folder = Path(tempfile.mkdtemp())
        (folder / "host").mkdir(mode=0o700)
        port, own, store = free_port(), str(folder / "host/kiln.sock"), str(folder / "store")
        place = {"KILN_QUEUE": f"nats://127.0.0.1:{port}", "KILN_STORE": store}
        self.assertTrue(NATS.exists(), f"{NATS} is not there: ./run.sh test installs it")
        self.start(NATS, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "queue"))
        self.start(sidecar.binary(), "serve", "--socket", own, "--store", str(folder / "host/jobs"))
        self.start(sidecar.binary(), "worker", "--name", "one", "--sidecar", own, **place)

        client = Client(queue=place["KILN_QUEUE"], store=store)
        glb = kiln.bake(SPOT / "mesh_nouv.glb", SPOT / "transforms.json", client=client, **OPTIONS)
        here = kiln.bake(SPOT / "mesh_nouv.glb", SPOT / "transforms.json", client=Client(own), **OPTIONS)
        self.assertEqual(glb.export(), here.export())
        self.assertEqual(glb.psnr, here.psnr)
        self.assertGreater(glb.psnr, 25)
        jobs = [path.name for path in (folder / "store/tenants/default/jobs").iterdir()]
        self.assertEqual(jobs, [job.id for job in client.list()], "the host did it, and not this process's sidecar")

        # The variables name a fleet, too; another client of the same one has the same sidecar.
        os.environ.update(place)
        self.addCleanup(lambda: [os.environ.pop(name) for name in place])
        self.assertEqual(sidecar.find().path, client.address)

    def test_a_fleet_that_is_not_there_is_told(self):
        client = Client(queue=f"nats://127.0.0.1:{free_port()}", store=tempfile.mkdtemp())
        with self.assertRaisesRegex(SidecarUnavailable, "the queue at nats://"):
            kiln.bake(SPOT / "mesh_nouv.glb", SPOT / "transforms.json", client=client, **OPTIONS)

    def test_an_address_and_a_fleet_exclude_each_other(self):
        for arguments in ({}, {"queue": "nats://x"}, {"address": "a.sock", "queue": "nats://x", "store": "y"}):
            with self.assertRaises(ValueError):
                Client(**arguments)


if __name__ == "__main__":
    unittest.main()
