"""What needs a file system of its own is collected only where one may be mounted."""

from __future__ import annotations

import subprocess
import tempfile


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


collect_ignore = [] if may_mount() else ["test_disk_trouble.py"]
