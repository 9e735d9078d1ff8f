"""What needs a file system of its own is collected only where one may be mounted (and frozen)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path


def may_mount() -> bool:
    """Try it: neither uid nor capabilities say for sure what a container allows."""
    with tempfile.TemporaryDirectory(prefix="mount-") as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", place]
        try:
            done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False
        if done:
            subprocess.run(["umount", place], check=True)
        return done


def may_freeze() -> bool:
    """Try it with a file system in a file: a container may have no loop devices."""
    with tempfile.TemporaryDirectory(prefix="freeze-") as root:
        image, place = Path(root) / "image", Path(root) / "place"
        place.mkdir()
        image.touch()
        os.truncate(image, 4 * 2**20)
        mounted = False
        try:
            for words in (
                ["mkfs.ext4", "-q", "-F", image],
                ["mount", "-o", "loop", image, place],
                ["fsfreeze", "--freeze", place],
                ["fsfreeze", "--unfreeze", place],
            ):
                subprocess.run(words, check=True, capture_output=True)
                mounted = words[0] != "mkfs.ext4"
        except (FileNotFoundError, subprocess.CalledProcessError):
            return False
        finally:
            if mounted:
                subprocess.run(["umount", place], check=True)
        return True


collect_ignore = []
if not may_mount():
    collect_ignore.append("test_disk_trouble.py")
if not may_freeze():
    collect_ignore.append("test_disk_hangs.py")
