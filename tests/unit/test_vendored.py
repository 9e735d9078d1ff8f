"""The scripts of others are those that are pinned, and nothing else lies beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.vendor_assets import FOLDER, PACKAGES, check


def test_what_is_there_is_what_is_listed() -> None:
    assert check(FOLDER) == []
    names = [file.name for package in PACKAGES for file in package.files]
    assert len(names) == len(set(names))
    licences = [name for name in names if name.endswith(".LICENSE.txt")]
    assert len(licences) == len(PACKAGES)


def test_what_is_changed_missing_or_strange_is_told(tmp_path: Path) -> None:
    there = Path(shutil.copytree(FOLDER, tmp_path / "vendor"))
    with (there / "htmx.min.js").open("a") as script:
        script.write("//")
    (there / "uplot.min.css").unlink()
    (there / "another.js").write_text("")
    missing, strange, changed = check(there)
    assert missing == "uplot.min.css is missing: make vendor"
    assert strange == "another.js is not listed"
    assert changed.startswith("htmx.min.js has the sum ")
