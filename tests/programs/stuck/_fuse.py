"""A file whose server takes every read and never answers, as a dead NFS server would.

`python _fuse.py PROGRAM` runs a program with the path of such a file as its argument. The mount is
seen only by the process that asked for it (a mount namespace of its own) and goes with it. The
server is no child of it: it leaves when the reader is gone or has a SIGKILL that cannot reach it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import select
import stat
import struct
import sys
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x4000 | 0x40000
MS_NOSUID_NODEV = 6
LOOKUP, FORGET, GETATTR, OPEN, READ = 1, 2, 3, 14, 15
RELEASE, FLUSH, INIT, INTERRUPT = 18, 25, 26, 36
NO_ANSWER = {FORGET, READ, INTERRUPT}
HEADER = struct.Struct("IIQQIIII")
#: The file is read straight from the server: no page of it is ever kept.
DIRECT_IO = 1
ENOSYS = 38
KILL_PENDING = 1 << 8


def hanging_file() -> Path:
    """Mount it for this process and return the path. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = tempfile.mkdtemp(prefix="dead-disk-")
    line = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={line},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
    _checked(libc.unshare(CLONE_NEWNS), "unshare")
    _checked(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None), "mount --make-rprivate")
    _checked(libc.mount(b"dead", place.encode(), b"fuse", MS_NOSUID_NODEV, options), "mount")
    reader = os.getpid()
    if (first := os.fork()) == 0:
        if os.fork() == 0:
            os.setsid()
            _serve(line, reader, place)
        os._exit(0)
    os.waitpid(first, 0)
    os.close(line)
    return Path(place) / "ledger.csv"


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _serve(line: int, reader: int, place: str) -> None:
    watch = select.poll()
    watch.register(line, select.POLLIN)
    while _wanted(reader):
        if not watch.poll(100):
            continue
        request = os.read(line, 1 << 18)
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode not in NO_ANSWER:
            code, body = _answer(opcode, node)
            os.write(line, struct.pack("IiQ", 16 + len(body), -code, unique) + body)
    os.close(line)
    ctypes.CDLL(None).umount2(place.encode(), 2)
    os.rmdir(place)
    os._exit(0)


def _wanted(reader: int) -> bool:
    try:
        status = Path(f"/proc/{reader}/status").read_text()
    except OSError:
        return False
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return not fields["State"].startswith(("Z", "X")) and not pending & KILL_PENDING


def _answer(opcode: int, node: int) -> tuple[int, bytes]:
    """Return an error number and what follows the header of an answer."""
    if opcode == INIT:
        return 0, struct.pack("IIIIHHIIHHI7I", 7, 31, 0, 0, 12, 9, 1 << 16, 1, 0, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        return 0, struct.pack("QQQQII", 2, 0, 3600, 3600, 0, 0) + _attributes(2)
    if opcode == GETATTR:
        return 0, struct.pack("QII", 3600, 0, 0) + _attributes(node)
    if opcode == OPEN:
        return 0, struct.pack("QII", 1, DIRECT_IO, 0)
    if opcode in (FLUSH, RELEASE):
        return 0, b""
    return ENOSYS, b""


def _attributes(node: int) -> bytes:
    mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o644
    size = 0 if node == 1 else 1 << 20
    owner = (os.getuid(), os.getgid())
    return struct.pack("6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0, 4096, 0)


def main() -> None:
    """Run the program that is named, in this process."""
    program = Path(sys.argv[1])
    sys.argv = [str(program), str(hanging_file())]
    sys.path[0] = str(program.parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
