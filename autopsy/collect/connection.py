"""The patient's sockets: state, both ends, queues, ages, and who is at the other end.

Secret: that netlink is asked first and the tables of /proc fill in where it does not answer.
Invariant: nothing is sent on a connection, and no socket of the patient is opened.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable

from autopsy.collect import netlink, procfs
from autopsy.collect.holder import Holders, described
from autopsy.collect.patient import Patient
from autopsy.section import Payload

_TABLE_LIMIT = 8 << 20
_TCP_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2",
    6: "TIME_WAIT", 7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING",
}  # fmt: skip
_LISTEN = 10
_MAX_GROUPS = 20
_TIMERS = {1: "retransmission", 2: "keepalive", 4: "zero window probe"}
_FAMILIES = (
    ("tcp", socket.AF_INET, socket.IPPROTO_TCP),
    ("tcp6", socket.AF_INET6, socket.IPPROTO_TCP),
    ("udp", socket.AF_INET, socket.IPPROTO_UDP),
    ("udp6", socket.AF_INET6, socket.IPPROTO_UDP),
)
_UNIX_STATES = {1: "UNCONNECTED", 2: "CONNECTING", 3: "CONNECTED", 4: "DISCONNECTING"}
_UNIX_DIAG_STATES = {1: "CONNECTED", 7: "UNCONNECTED", 10: "LISTEN"}
_UNIX_LISTENING = 0x10000
_UNIX_TYPES = {1: "stream", 2: "dgram", 5: "seqpacket"}


def collector(holders: Holders) -> Callable[[Patient], Payload]:
    """Return the collector of the sockets; it raises Skipped when the kernel hides them.

    Shapes: fd, inode, kind, state, local, peer, send_queue_bytes, receive_queue_bytes (of a
    listener accept_queue and accept_queue_max instead); silent_ms and sent_ms (since data came or
    went), received_bytes, acked_bytes, retransmits, timer, timer_ms; own_peer (fd);
    peer_process (pid, name, command_line, state, wchan, syscall, blocked_on). groups: kind, state,
    peer, count.
    """

    def collect(patient: Patient) -> Payload:
        patient.require_open()
        wanted = {
            int(target[8:-1]): number
            for number, target in procfs.links(patient.pid, 1 << 16)
            if target.startswith("socket:[")
        }
        found: dict[int, Payload] = {}
        peers: dict[int, int] = {}
        if wanted:
            with contextlib.suppress(OSError):  # the tables below are there without netlink
                found, peers = _diagnosed(patient.pid, wanted)
            if not wanted.keys() <= found.keys():
                for inode, entry in _tabled(patient.pid, wanted).items():
                    found.setdefault(inode, entry)
        for inode, number in wanted.items():
            found.setdefault(inode, {"fd": number, "inode": inode, "kind": "other", "state": ""})
        at_the_end = functools.cache(described)  # a pool has many connections to one
        for inode, entry in found.items():
            others = _others(patient.pid, peers.get(inode), holders)
            entry["own_peer"] = wanted.get(peers.get(inode, 0))
            entry["peer_process"] = at_the_end(others[0]) if others else None
        return {
            "sockets": sorted(found.values(), key=lambda entry: int(entry["fd"])),
            "groups": _groups(found.values()),
            "left_out": holders.unseen,
        }

    return collect


def _groups(entries: Iterable[Payload]) -> list[Payload]:
    """Return how many sockets are in the same state to the same peer, the most frequent first."""
    keys = ("kind", "state", "peer")
    alike = Counter(tuple(entry.get(key, "") for key in keys) for entry in entries)
    return [
        {**dict(zip(keys, one, strict=True)), "count": count}
        for one, count in alike.most_common(_MAX_GROUPS)
    ]


def _diagnosed(pid: int, wanted: dict[int, int]) -> tuple[dict[int, Payload], dict[int, int]]:
    """Ask netlink: the entries by inode, and the inode at the other end where it is on this host.

    A family that the kernel cannot list is left to the tables. Raises OSError if all are.
    """
    found: dict[int, Payload] = {}
    peers: dict[int, int] = {}
    by_ends: dict[bytes, int] = {}
    own: dict[int, bytes] = {}
    with netlink.connected(pid) as asked:
        for kind, family, protocol in _FAMILIES:
            try:
                table = netlink.internet(asked, family, protocol, set(wanted))
            except OSError:
                continue
            by_ends.update(table.by_ends)
            own.update(table.ends)
            for inode, one in table.wanted.items():
                found[inode] = _internet_entry(wanted[inode], kind, one)
        everybody = netlink.local(asked)
    for inode, ends in own.items():
        if (peer := by_ends.get(netlink.swapped(ends), 0)) and _is_connected(found[inode]):
            peers[inode] = peer
    for inode in wanted.keys() & everybody.keys():
        here = everybody[inode]
        found[inode] = _local_entry(wanted[inode], here, everybody.get(here.peer or 0))
        if here.peer:
            peers[inode] = here.peer
    return found, peers


def _is_connected(entry: Payload) -> bool:
    return entry["state"] != "LISTEN" and not entry["peer"].endswith(":0")


def _internet_entry(number: int, kind: str, one: netlink.Internet) -> Payload:
    entry: Payload = {
        "fd": number,
        "inode": one.inode,
        "kind": kind,
        "state": _TCP_STATES.get(one.state, str(one.state)) if "tcp" in kind else "",
        "local": one.local,
        "peer": one.peer,
        "silent_ms": one.silent_ms,
        "sent_ms": one.sent_ms,
        "received_bytes": one.received_bytes,
        "acked_bytes": one.acked_bytes,
        "retransmits": one.retransmits,
        "timer": _TIMERS.get(one.timer, ""),
        "timer_ms": one.expires_ms if one.timer else None,
    }
    return entry | _queues(one.state, one.receive_queue, one.send_queue)


def _local_entry(number: int, one: netlink.Local, other: netlink.Local | None) -> Payload:
    entry: Payload = {
        "fd": number,
        "inode": one.inode,
        "kind": "unix-" + _UNIX_TYPES.get(one.kind, "other"),
        "state": _UNIX_DIAG_STATES.get(one.state, ""),
        "local": one.name,
        "peer": other.name if other is not None else "",
    }
    return entry | _queues(one.state, one.receive_queue, one.send_queue)


def _queues(state: int, received: int, sent: int | None) -> Payload:
    if state == _LISTEN:
        return {"accept_queue": received, "accept_queue_max": sent}
    return {"send_queue_bytes": sent, "receive_queue_bytes": received}


def _others(pid: int, peer: int | None, holders: Holders) -> list[int]:
    """Return who else has the socket at the other end; nobody if that is not on this host."""
    if peer is None:
        return []
    return [one for one, _ in holders.of(pid, f"socket:[{peer}]") if one != pid]


def _tabled(pid: int, wanted: dict[int, int]) -> dict[int, Payload]:
    found: dict[int, Payload] = {}
    for kind, _, _ in _FAMILIES:
        found.update(_internet_table(pid, kind, wanted))
    found.update(_local_table(pid, wanted))
    return found


def _internet_table(pid: int, kind: str, wanted: dict[int, int]) -> dict[int, Payload]:
    found: dict[int, Payload] = {}
    table = procfs.read_text(f"/proc/{pid}/net/{kind}", _TABLE_LIMIT) or ""
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) < 10 or not words[9].isdigit() or (inode := int(words[9])) not in wanted:
            continue
        state = int(words[3], 16)
        sent, received = (int(part, 16) for part in words[4].split(":"))
        found[inode] = {
            "fd": wanted[inode],
            "inode": inode,
            "kind": kind,
            "state": _TCP_STATES.get(state, str(state)) if "tcp" in kind else "",
            "local": address(words[1]),
            "peer": address(words[2]),
            "silent_ms": None,
            "sent_ms": None,
            "retransmits": int(words[6], 16),
        } | _queues(state, received, None if state == _LISTEN else sent)
    return found


def held_ends() -> set[str]:
    """Return the own ends (`host:port`) of the TCP sockets here that some process has open.

    What a killed process leaves behind is closed by the kernel, and held by nobody.
    """
    found: set[str] = set()
    for kind in ("tcp", "tcp6"):
        table = procfs.read_text(f"/proc/self/net/{kind}", _TABLE_LIMIT) or ""
        rows = [line.split() for line in table.splitlines()[1:]]
        found.update(address(words[1]) for words in rows if len(words) > 9 and words[9] != "0")
    return found


def _local_table(pid: int, wanted: dict[int, int]) -> dict[int, Payload]:
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
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return netlink.printed(family, struct.pack(f"={len(words)}I", *words), int(port, 16))
