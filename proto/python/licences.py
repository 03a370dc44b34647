#!/usr/bin/env python3
"""The crates and npm packages that `kiln` and `kiln-baker` are made of → one text with the licence of each.

    ./licences.py > THIRD-PARTY        # after a build: needs cargo, and reads what it has fetched

A text that several share is there once. A crate without a text of its own is named with its licence and authors.
"""

import json
import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("kiln", "kiln-baker")
#: Files that hold a licence, be it the crate's own or that of C code within it.
NAMED = re.compile(r"(licen[cs]e|copying|notice|unlicense)([-_.].*)?", re.I)


def texts(folder):
    """The licence files anywhere beneath a folder, by their names."""
    found = (Path(above, name) for above, _, names in sorted(os.walk(folder)) for name in sorted(names) if NAMED.fullmatch(name))
    return [text.read_text(errors="replace").strip() for text in found if text.suffix not in (".rs", ".py", ".js", ".html")]


def crates():
    """What cargo compiles into the programs: name, licence and authors, and texts of each."""
    host = re.search(r"^host: (.+)$", subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout, re.M)[1]
    asked = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", host]
    said = json.loads(subprocess.run(asked, cwd=HERE, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in said["packages"]}
    needs = {node["id"]: node["deps"] for node in said["resolve"]["nodes"]}
    todo = [key for key, package in packages.items() if package["name"] in PROGRAMS and not package["source"]]
    seen = set()
    while todo:
        if (key := todo.pop()) not in seen:
            seen.add(key)
            # Neither what builds nor what tests.
            todo += [need["pkg"] for need in needs[key] if any(kind["kind"] is None for kind in need["dep_kinds"])]
    for package in sorted((packages[key] for key in seen), key=lambda package: (package["name"], package["version"])):
        if package["source"]:
            about = ", ".join([f"{package['license']}", *package["authors"]])
            yield f"{package['name']} {package['version']}", about, texts(Path(package["manifest_path"]).parent)
    page = Path(said["target_directory"]).glob("release/build/kiln-*/out/page/dist/licences.txt")
    # Without the page, its packages are not in the programs either.
    for file in sorted(page, key=os.path.getmtime)[-1:]:
        yield "The sidecar's page (npm)", "three, fflate and what three brings along", [file.read_text().strip()]


def third_party():
    """See the head of this file."""
    lines, shared = ["kiln and kiln-baker hold the following works of others, under these licences.", ""], {}
    lines.append("The Rust standard library: MIT OR Apache-2.0, The Rust Project Developers")
    for name, about, found in crates():
        lines.append(f"{name}: {about}")
        for text in found:
            shared.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    for text, names in shared.values():
        lines += ["", "-" * 80, ", ".join(dict.fromkeys(names)), "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(third_party(), end="")
