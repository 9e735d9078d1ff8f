"""The patient's open descriptors and sockets, by readlink, fdinfo and the kernel's socket tables.

Invariant: no stat and no open of what a descriptor points to: on a dead file system either would
hang beyond SIGKILL.
"""

from __future__ import annotations

import socket
import struct

from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.collect.process import limits
from autopsy.section import Payload, Skipped

NO_PERMISSION = "no permission to see its descriptors: needs SYS_PTRACE"
_MAX_LISTED = 2000
_TABLE_LIMIT = 8 << 20
_TCP_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2",
    6: "TIME_WAIT", 7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING",
}  # fmt: skip
_UNIX_STATES = {1: "UNCONNECTED", 2: "CONNECTING", 3: "CONNECTED", 4: "DISCONNECTING"}
_UNIX_LISTENING = 0x10000
_UNIX_TYPES = {1: "stream", 2: "dgram", 5: "seqpacket"}


def collect_fds(patient: Patient) -> Payload:
    """List the open descriptors: number, target, position and flags.

    Raises Skipped when the kernel does not let us see them.
    """
    if procfs.is_hidden(patient.pid):
        raise Skipped(NO_PERMISSION)
    numbers = procfs.descriptors(patient.pid)
    listed = procfs.links(patient.pid, _MAX_LISTED)
    soft = limits(patient.pid).get("Max open files", ["0", "0"])[0]
    return {
        "count": len(numbers),
        "limit": int(soft) if soft.isdigit() else None,
        "fds": [_described(patient.pid, number, target) for number, target in listed],
    }


def collect_sockets(patient: Patient) -> Payload:
    """List the patient's sockets with their state, both ends and their queues in bytes.

    Raises Skipped when the kernel does not let us see them.
    """
    if procfs.is_hidden(patient.pid):
        raise Skipped(NO_PERMISSION)
    wanted = {
        int(target[8:-1]): number
        for number, target in procfs.links(patient.pid, 1 << 16)
        if target.startswith("socket:[")
    }
    found: dict[int, Payload] = {}
    if wanted:
        for family in ("tcp", "tcp6", "udp", "udp6"):
            found.update(_internet(patient.pid, family, wanted))
        found.update(_local(patient.pid, wanted))
    for inode, number in wanted.items():
        found.setdefault(inode, {"fd": number, "inode": inode, "kind": "other", "state": ""})
    return {"sockets": sorted(found.values(), key=lambda entry: int(entry["fd"]))}


def _described(pid: int, number: int, target: str) -> Payload:
    text = procfs.read_text(f"/proc/{pid}/fdinfo/{number}") or ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    position, flags = lines.get("pos", "").strip(), lines.get("flags", "").strip()
    return {
        "fd": number,
        "target": target,
        "position": int(position) if position.isdigit() else None,
        "flags": flags,
    }


def _internet(pid: int, family: str, wanted: dict[int, int]) -> dict[int, Payload]:
    found: dict[int, Payload] = {}
    for line in (procfs.read_text(f"/proc/{pid}/net/{family}", _TABLE_LIMIT) or "").splitlines()[
        1:
    ]:
        words = line.split()
        if len(words) < 10 or not words[9].isdigit() or (inode := int(words[9])) not in wanted:
            continue
        state = int(words[3], 16)
        sent, received = (int(part, 16) for part in words[4].split(":"))
        found[inode] = {
            "fd": wanted[inode],
            "inode": inode,
            "kind": family,
            "state": _TCP_STATES.get(state, str(state)) if "tcp" in family else "",
            "local": address(words[1]),
            "peer": address(words[2]),
            "send_queue_bytes": sent,
            "receive_queue_bytes": received,
        }
    return found


def _local(pid: int, wanted: dict[int, int]) -> dict[int, Payload]:
    found: dict[int, Payload] = {}
    for line in (procfs.read_text(f"/proc/{pid}/net/unix", _TABLE_LIMIT) or "").splitlines()[1:]:
        words = line.split(maxsplit=7)
        if len(words) < 7 or not words[6].isdigit() or (inode := int(words[6])) not in wanted:
            continue
        listening = int(words[3], 16) & _UNIX_LISTENING
        found[inode] = {
            "fd": wanted[inode],
            "inode": inode,
            "kind": "unix-" + _UNIX_TYPES.get(int(words[4], 16), "other"),
            "state": "LISTEN" if listening else _UNIX_STATES.get(int(words[5], 16), ""),
            "local": words[7] if len(words) > 7 else "",
            "peer": "",
        }
    return found


def address(packed: str) -> str:
    """Return `host:port` from the kernel's hexadecimal form (32-bit words in host byte order)."""
    host, _, port = packed.partition(":")
    words = [int(host[i : i + 8], 16) for i in range(0, len(host), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return f"{socket.inet_ntop(socket.AF_INET, raw)}:{int(port, 16)}"
    return f"[{socket.inet_ntop(socket.AF_INET6, raw)}]:{int(port, 16)}"
