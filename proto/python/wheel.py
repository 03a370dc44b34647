#!/usr/bin/env python3
"""A folder with `kiln` and `kiln-baker` → the wheel `kiln_server`, which puts both, stripped, on the PATH of an environment.

    ./wheel.py ../../target/release dist        # needs strip, of binutils, and cargo, for the licences of the crates

Its tag names the processor and the oldest glibc that the programs ask for. libstdc++ and libgcc are the system's.
"""

import base64
import hashlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from licences import PROGRAMS, third_party

HERE = Path(__file__).resolve().parent
#: By the number in an ELF's head.
PROCESSORS = {62: "x86_64", 183: "aarch64"}


def tag(programs):
    """As `manylinux_2_35_x86_64`."""
    machines = {PROCESSORS.get(struct.unpack_from("<H", data, 18)[0]) if data[:4] == b"\x7fELF" else None for data in programs}
    versions = {tuple(map(int, version)) for data in programs for version in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", data)}
    if len(machines) != 1 or None in machines or not versions:
        sys.exit(f"{' and '.join(PROGRAMS)} are not programs for Linux with glibc, on {' or '.join(PROCESSORS.values())}")
    return "manylinux_{}_{}_{}".format(*max(versions), machines.pop())


def main(folder, output):
    version = re.search(r'^version = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M)[1]
    for program in PROGRAMS:
        if not (folder / program).is_file():
            sys.exit(f"{folder / program} is missing: cargo build --release --workspace --bins")
    said = subprocess.run([folder / "kiln", "--version"], capture_output=True, text=True, check=True).stdout.split()
    if [word.split("+")[0] for word in said[1:2]] != [version]:
        sys.exit(f"{folder / 'kiln'} is {' '.join(said)}, and pyproject.toml has {version}")
    platform, info = tag([(folder / program).read_bytes() for program in PROGRAMS]), f"kiln_server-{version}.dist-info"
    if not shutil.which("strip"):
        sys.exit("strip is missing: it is in binutils")
    with tempfile.TemporaryDirectory() as stripped:
        for program in PROGRAMS:
            subprocess.run(["strip", "-o", f"{stripped}/{program}", folder / program], check=True)
        programs = [Path(stripped, program).read_bytes() for program in PROGRAMS]
    metadata = f"""\
Metadata-Version: 2.4
Name: kiln-server
Version: {version}
Summary: The programs kiln and kiln-baker, for kiln-client and for the shell
License-Expression: MIT OR Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY
"""
    wheel = f"Wheel-Version: 1.0\nGenerator: kiln wheel.py\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    files = {f"kiln_server-{version}.data/scripts/{name}": data for name, data in zip(PROGRAMS, programs)}
    files[f"{info}/licenses/LICENSE"] = (HERE.parents[1] / "LICENSE").read_bytes()
    files[f"{info}/licenses/THIRD-PARTY"] = third_party().encode()
    files.update({f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()})
    sums = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=") for name, data in files.items()}
    lines = [f"{name},sha256={sums[name]},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    output.mkdir(parents=True, exist_ok=True)
    made = output / f"kiln_server-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # A fixed date: the same programs make the same wheel.
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(made)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
