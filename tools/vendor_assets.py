"""Put what the pages use of others' scripts into the package, or check that it is there unchanged.

    python tools/vendor_assets.py            fetch it from the npm registry (`make vendor`)
    python tools/vendor_assets.py --check    compare what is there with the sums (`make check`)

Versions and sums stand here and nowhere else. The archive is compared before anything of it is
unpacked; the check asks no network, and a file in the folder that is not listed fails it.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "supervisor" / "web" / "static" / "vendor"


@dataclass(frozen=True, slots=True)
class File:
    """One file: where the package has it, what it is called here, its sum."""

    source: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """One package of npm in one version; `sha256` is of its archive."""

    name: str
    version: str
    sha256: str
    files: tuple[File, ...]


PACKAGES = (
    Package(
        # Not 4: it is a new engine, some weeks old, and what extends it is newer still.
        "htmx.org",
        "2.0.10",
        "577ad40c1c94c9de47edb89e0aec78a8353d36024c50017eb53e02992a55e889",
        (
            File(
                "dist/htmx.min.js",
                "htmx.min.js",
                "71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de",
            ),
            File(
                "LICENSE",
                "htmx.LICENSE.txt",
                "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
            ),
        ),
    ),
    Package(
        # What is refreshed keeps its focus, its selection and the place it is scrolled to.
        "idiomorph",
        "0.8.0",
        "c2b48584153f0167b5c98cb815576338ccd82a97378e53fbf29d139dfd67207e",
        (
            File(
                "dist/idiomorph.min.js",
                "idiomorph.min.js",
                "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96",
            ),
            File(
                "LICENSE",
                "idiomorph.LICENSE.txt",
                "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
            ),
        ),
    ),
    Package(
        "uplot",
        "1.6.32",
        "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d",
        (
            File(
                "dist/uPlot.iife.min.js",
                "uplot.min.js",
                "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            ),
            File(
                "dist/uPlot.min.css",
                "uplot.min.css",
                "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
            ),
            File(
                "LICENSE",
                "uplot.LICENSE.txt",
                "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
            ),
        ),
    ),
)


def main() -> int:
    """Do what the arguments say; returns 1 when something is not as listed."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--check", action="store_true", help="only compare")
    if not words.parse_args().check:
        for package in PACKAGES:
            _take(package)
    problems = check(FOLDER)
    for text in problems:
        print(text, file=sys.stderr)
    return 1 if problems else 0


def check(folder: Path) -> list[str]:
    """Return what is missing, other than listed, or not listed in the folder."""
    listed = {file.name: file.sha256 for package in PACKAGES for file in package.files}
    there = {path.name: _sum(path.read_bytes()) for path in folder.iterdir()}
    missing = [f"{name} is missing: make vendor" for name in sorted(listed.keys() - there.keys())]
    strange = [f"{name} is not listed" for name in sorted(there.keys() - listed.keys())]
    changed = [
        f"{name} has the sum {there[name]}, listed is {listed[name]}"
        for name in sorted(listed.keys() & there.keys())
        if there[name] != listed[name]
    ]
    return missing + strange + changed


def _take(package: Package) -> None:
    with tempfile.TemporaryDirectory() as room:
        told = subprocess.run(
            ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            cwd=room, check=True, capture_output=True, text=True,
        )  # fmt: skip
        archive = Path(room) / told.stdout.split()[-1]
        found = _sum(archive.read_bytes())
        if found != package.sha256:
            sys.exit(f"{archive.name} has the sum {found}, listed is {package.sha256}")
        with tarfile.open(archive) as opened:
            for file in package.files:
                member = opened.extractfile(f"package/{file.source}")
                assert member is not None
                (FOLDER / file.name).write_bytes(member.read())
    print(f"{package.name} {package.version}")


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
