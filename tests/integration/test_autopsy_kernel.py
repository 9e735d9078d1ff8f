"""What the kernel tells of real processes: sockets and peers, descriptors, locks, the host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from ward import patient

from autopsy.collect import (
    connection,
    descriptor,
    filelock,
    growth,
    host,
    memory,
    netlink,
    process,
    procfs,
    pyspy,
    tree,
)
from autopsy.collect.holder import Holders
from autopsy.collect.patient import Patient, open_patient
from autopsy.section import Payload

MIB = 1 << 20


def sockets_of(pid: int) -> list[Payload]:
    with open_patient(pid) as one:
        found: list[Payload] = connection.collector(Holders())(one)["sockets"]
    return found


def fds_of(pid: int) -> Payload:
    with open_patient(pid) as one:
        return descriptor.collector(Holders())(one)


def locks_of(pid: int) -> list[Payload]:
    with open_patient(pid) as one:
        found: list[Payload] = filelock.collect(one)["locks"]
    return found


def children_of(pid: int) -> list[Payload]:
    with open_patient(pid) as one:
        found: list[Payload] = tree.collect(one)["children"]
    return found


def cpu_group(pid: int) -> Payload:
    with open_patient(pid) as one:
        found: Payload = host.collect(one)["cgroup"]["cpu"]
    return found


def until_in(pid: int, syscall: str) -> None:
    eventually(
        lambda: procfs.current_syscall(f"/proc/{pid}/syscall")[0] == syscall, 10, f"in {syscall}"
    )


def subset(entry: Payload, *keys: str) -> dict[str, Any]:
    return {key: entry[key] for key in keys}


# -- sockets

CONNECTED = """
    import os, socket, sys
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        connection, _ = listener.accept()
        connection.sendall(b"hello")
        sys.stdin.read()
        os._exit(0)
    client = socket.create_connection(listener.getsockname())
    client.recv(5)
    client.sendall(b"a question")
    say_ready()
    client.recv(1)
"""


def test_a_connection_has_ages_and_the_process_at_its_other_end() -> None:
    with patient(CONNECTED) as one:
        (child,) = procfs.child_ids(one.pid)
        time.sleep(0.2)
        listening, client = sockets_of(one.pid)
    assert subset(listening, "state", "accept_queue", "silent_ms", "sent_ms", "peer_process") == {
        "state": "LISTEN", "accept_queue": 0, "silent_ms": None, "sent_ms": None,
        "peer_process": None,
    }  # fmt: skip
    assert listening["accept_queue_max"] > 0
    assert 200 <= client["sent_ms"] <= client["silent_ms"] < 5000
    expected = {
        "kind": "tcp", "state": "ESTABLISHED", "peer": listening["local"], "received_bytes": 5,
        "own_peer": None, "receive_queue_bytes": 0, "retransmits": 0,
    }  # fmt: skip
    assert subset(client, *expected) == expected
    peer = client["peer_process"]
    assert (peer["pid"], peer["name"].startswith("python")) == (child, True)
    assert peer["command_line"][1] == "-c"
    assert (peer["state"], peer["syscall"], peer["blocked_on"]["fd"]) == ("S", "read", 0)


def test_a_connection_that_nobody_accepts_or_reads_shows_where_its_bytes_are() -> None:
    source = """
        import socket
        listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        sender = socket.create_connection(listener.getsockname())
        sender.setblocking(False)
        try:
            while True:
                sender.send(bytes(65536))
        except BlockingIOError:
            pass
        second = socket.socket()
        second.setblocking(False)
        second.connect_ex(listener.getsockname())
        say_ready()
        input()
    """
    with patient(source) as one:
        listening, sender, second = sockets_of(one.pid)
    assert subset(listening, "accept_queue", "accept_queue_max") == {
        "accept_queue": 1,
        "accept_queue_max": 0,
    }
    assert sender["send_queue_bytes"] > 0
    assert subset(second, "state", "silent_ms", "sent_ms", "timer") == {
        "state": "SYN_SENT",
        "silent_ms": None,
        "sent_ms": None,
        "timer": "retransmission",
    }


def test_both_ends_of_a_connection_can_be_our_own() -> None:
    source = """
        import socket
        left, right = socket.socketpair()
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        client = socket.create_connection(listener.getsockname()[:2])
        server, _ = listener.accept()
        say_ready(left.fileno(), right.fileno(), client.fileno(), server.fileno())
        input()
    """
    with patient(source) as one:
        found = {entry["fd"]: entry for entry in sockets_of(one.pid)}
    left, right, _, client, server = sorted(found)
    ends = {fd: found[fd]["own_peer"] for fd in (left, right, client, server)}
    assert ends == {left: right, right: left, client: server, server: client}
    assert found[client]["peer"] == found[server]["local"]
    assert found[client]["peer"].startswith("[::1]:")
    assert found[client]["peer_process"] is None


def test_an_ipv4_peer_of_an_ipv6_socket_is_found() -> None:
    source = """
        import socket
        listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        client = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
        server, _ = listener.accept()
        say_ready()
        input()
    """
    with patient(source) as one:
        _, client, server = sockets_of(one.pid)
    assert (client["kind"], server["kind"]) == ("tcp", "tcp6")
    assert (client["own_peer"], server["own_peer"]) == (server["fd"], client["fd"])
    assert server["peer"] == client["local"]


def test_the_other_end_of_a_unix_socket_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    source = f"""
        import os, socket, sys
        listener = socket.socket(socket.AF_UNIX)
        listener.bind({str(path)!r})
        listener.listen()
        if os.fork() == 0:
            connection, _ = listener.accept()
            sys.stdin.read()
            os._exit(0)
        listener.close()
        client = socket.socket(socket.AF_UNIX)
        client.connect({str(path)!r})
        say_ready()
        client.recv(1)
    """
    with patient(source) as one:
        (child,) = procfs.child_ids(one.pid)
        until_in(child, "read")
        (client,) = sockets_of(one.pid)
    expected = {"kind": "unix-stream", "state": "CONNECTED", "peer": str(path), "own_peer": None}
    assert subset(client, *expected) == expected
    assert client["peer_process"]["pid"] == child


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes a namespace"
)
def test_the_sockets_of_another_network_namespace_are_read_there() -> None:
    source = """
        import socket, subprocess
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        left = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        left.bind(("127.0.0.1", 7))
        listener = socket.create_server(("127.0.0.1", 7))
        say_ready()
        input()
    """
    with patient(source, prefix=("unshare", "--net")) as one:
        datagram, listening = sockets_of(one.pid)
    assert subset(datagram, "kind", "local") == {"kind": "udp", "local": "127.0.0.1:7"}
    assert subset(listening, "kind", "local", "accept_queue_max") == {
        "kind": "tcp",
        "local": "127.0.0.1:7",
        "accept_queue_max": 128,
    }


def test_without_netlink_the_tables_of_proc_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int) -> None:
        raise OSError(f"not for {pid}")

    with patient(CONNECTED) as one:
        full = sockets_of(one.pid)
        monkeypatch.setattr(netlink, "connected", refused)
        plain = sockets_of(one.pid)
    shared = ("fd", "inode", "kind", "state", "local", "peer")
    assert [subset(entry, *shared) for entry in plain] == [subset(entry, *shared) for entry in full]
    assert [entry["silent_ms"] for entry in plain] == [None, None]


# -- descriptors


def test_descriptors_are_grouped_and_say_what_they_are_about(tmp_path: Path) -> None:
    source = f"""
        import os, select, tempfile
        kept = [tempfile.TemporaryFile(dir={str(tmp_path)!r}) for _ in range(3)]
        named = [open({str(tmp_path)!r} + f"/part-{{i}}.csv", "w") for i in range(5)]
        counter = os.eventfd(3)
        watcher = select.epoll()
        watcher.register(counter, select.EPOLLIN)
        say_ready()
        input()
    """
    with patient(source) as one:
        found = fds_of(one.pid)
    assert found["groups"][0] == {"target": f"{tmp_path}/part-*.csv", "count": 5}
    assert found["count"] == len(found["fds"])
    details = {entry["target"]: entry["detail"] for entry in found["fds"] if "detail" in entry}
    (counter,) = [entry["fd"] for entry in found["fds"] if "eventfd" in entry["target"]]
    assert details["anon_inode:[eventfd]"]["count"] == "3"
    assert details["anon_inode:[eventpoll]"] == {"watches": [counter]}


def test_who_holds_the_other_end_of_a_pipe() -> None:
    source = """
        import os, subprocess, sys
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        both = os.pipe()
        say_ready(child.stdin.fileno(), *both)
        sys.stdin.read()
        child.stdin.close()
    """
    with patient(source) as one:
        (child,) = procfs.child_ids(one.pid)
        until_in(child, "read")
        found = fds_of(one.pid)
    peers = found["pipe_peers"]
    input_pipe = next(entry["target"] for entry in found["fds"] if entry["fd"] == 0)
    # We hold the other end of its input, and leave ourselves out: we only examine.
    assert {peer["pid"] for peer in peers[input_pipe]}.isdisjoint({os.getpid()})
    others = [ends for target, ends in peers.items() if target != input_pipe]
    assert [{"pid": child, "name": "cat", "end": "read", "state": "S", "itself": False}] in others
    selves = [
        {peer["end"] for peer in ends} for ends in peers.values() if any(p["itself"] for p in ends)
    ]
    assert selves == [{"read", "write"}]


def test_who_holds_the_other_end_of_a_fifo_that_a_thread_reads(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writes = f"import os\nos.open({str(fifo)!r}, os.O_RDWR)\nsay_ready()\ninput()"
    with patient(writes) as writer, patient(f"say_ready()\nopen({str(fifo)!r}).read()") as one:
        until_in(one.pid, "read")
        peers = fds_of(one.pid)["pipe_peers"][str(fifo)]
    name = Path(os.path.realpath(sys.executable)).name
    assert [(peer["pid"], peer["state"]) for peer in peers] == [(writer.pid, "S")]
    assert peers[0]["name"].startswith(name[:6])


def test_who_holds_the_other_end_of_a_terminal() -> None:
    source = """
        import os, pty, sys
        pid, master = pty.fork()
        if pid == 0:
            os.execvp("cat", ["cat"])
        say_ready()
        sys.stdin.read()
    """
    with patient(source) as one:
        (child,) = procfs.child_ids(one.pid)
        until_in(child, "read")
        from_master, from_terminal = fds_of(one.pid), fds_of(child)
    ((name, holders),) = [
        (name, ends) for name, ends in from_master["pipe_peers"].items() if "/dev/pts" in name
    ]
    assert {(peer["pid"], peer["end"]) for peer in holders} == {(child, "terminal")}
    assert {(peer["pid"], peer["end"]) for peer in from_terminal["pipe_peers"][name]} == {
        (one.pid, "master")
    }


# -- threads and children


def test_an_open_that_waits_names_its_path(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with patient(f"say_ready()\nopen({str(fifo)!r})") as one:
        until_in(one.pid, "openat")
        (thread,) = process.threads(one.pid)
    assert subset(thread, "syscall", "opens") == {"syscall": "openat", "opens": str(fifo)}
    assert thread["cpu_ns"] > 0
    assert thread["run_delay_ns"] >= 0


def test_a_thread_that_wants_the_same_cpu_as_others_waits_for_it() -> None:
    source = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(3):
            if os.fork() == 0:
                parent = os.getppid()
                while os.getppid() == parent:
                    pass
                os._exit(0)
        say_ready()
        while True:
            pass
    """
    with patient(source) as one, open_patient(one.pid) as examined:
        before = process.collect(examined)["threads"][0]
        seen = host.collect(examined)
        after = process.collect_movement(examined)["threads"][0]
    delay_s = (after["run_delay_ns"] - before["run_delay_ns"]) / 1e9
    assert 0.05 < delay_s / seen["window_s"] < 1.6
    assert seen["affinity"].isdigit()
    assert after["cpu"] == int(seen["affinity"])
    assert seen["pressure"]["cpu"]["some"]["window_ratio"] > 0.1
    assert seen["load"][0] >= 0


def test_children_say_what_they_are_and_what_they_wait_for() -> None:
    source = """
        import os, subprocess, sys
        from multiprocessing import resource_tracker
        from pathlib import Path
        reading = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        ended = subprocess.Popen(["sh", "-c", "exit 3"])
        killed = subprocess.Popen(["sleep", "100"])
        killed.kill()
        busy = os.fork()
        if busy == 0:
            parent = os.getppid()
            while os.getppid() == parent:
                pass
            os._exit(0)
        resource_tracker.ensure_running()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        # Both have been forked, and may have to wait for their turn to become what they are.
        tracker = Path("/proc", str(resource_tracker._resource_tracker._pid), "cmdline")
        while b"resource_tracker" not in tracker.read_bytes():
            pass
        while ") S " not in Path("/proc", str(reading.pid), "stat").read_text():
            pass
        say_ready()
        sys.stdin.read()
    """
    with patient(source) as one:
        children = children_of(one.pid)
        # In a quarter of a second on a full host even an endless loop may not get its turn.
        eventually(
            lambda: any(child["cpu_ratio"] > 0 for child in children_of(one.pid)), 20, "one is busy"
        )
    by_role = {child["role"] or child["name"] + child["state"]: child for child in children}
    assert set(by_role) == {"catS", "shZ", "sleepZ", "fork of the patient", "resource tracker"}
    waits = by_role["catS"]
    assert waits["blocked_on"]["fd"] == 0
    assert waits["blocked_on"]["target"] in waits["pipes"]
    assert (by_role["shZ"]["exit_code"], by_role["sleepZ"]["exit_signal"]) == (3, signal.SIGKILL)
    assert waits["cpu_ratio"] == 0
    assert (waits["state_after"], by_role["shZ"]["state_after"]) == ("S", "Z")
    assert all(0 <= child["age_s"] < 60 for child in children)


def test_the_exit_code_of_a_patient_that_is_not_reaped() -> None:
    with (
        patient("say_ready()\nimport sys\nsys.stdin.read()\nsys.exit(7)") as one,
        open_patient(one.pid) as examined,
    ):
        assert one.stdin is not None
        one.stdin.close()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        seen = process.collect_movement(examined)
    assert (seen["alive"], seen["exit_code"]) == (False, 7)


# -- file locks

LOCKER = """
    import fcntl, os, sys
    file = open({path!r}, "w")
    {lock}
    say_ready()
    {after}
"""


def locker(path: Path, lock: str, after: str = "sys.stdin.read()") -> str:
    return LOCKER.format(path=str(path), lock=lock, after=after)


@pytest.mark.parametrize(
    ("lock", "kind", "syscall"),
    [
        ("fcntl.flock(file, fcntl.LOCK_EX)", "FLOCK", "flock"),
        ("fcntl.lockf(file, fcntl.LOCK_EX)", "POSIX", "fcntl"),
    ],
)
def test_the_holder_of_a_file_lock_and_what_it_does(
    tmp_path: Path, lock: str, kind: str, syscall: str
) -> None:
    path = tmp_path / "locked"
    with (
        patient(locker(path, lock)) as holder,
        patient(locker(path, "pass", lock)) as waiter,
    ):
        until_in(waiter.pid, syscall)
        until_in(holder.pid, "read")
        found = locks_of(waiter.pid)
    held, waited = sorted(found, key=lambda entry: bool(entry["waiting"]))
    assert subset(waited, "pid", "waiting", "kind", "path") == {
        "pid": waiter.pid,
        "waiting": True,
        "kind": kind,
        "path": str(path),
    }
    assert "command_line" not in waited
    assert subset(held, "pid", "waiting", "path", "state", "syscall", "range") == {
        "pid": holder.pid, "waiting": False, "path": str(path), "state": "S", "syscall": "read",
        "range": ["0", "EOF"],
    }  # fmt: skip
    assert held["blocked_on"]["fd"] == 0
    assert held["id"] == waited["id"]


def test_a_lock_whose_taker_is_gone_is_found_with_its_heir(tmp_path: Path) -> None:
    path = tmp_path / "locked"
    inherited = locker(
        path,
        "fcntl.flock(file, fcntl.LOCK_EX)\n    os.set_inheritable(file.fileno(), True)",
        "import subprocess\n    subprocess.Popen(['cat'], close_fds=False)\n    os._exit(0)",
    )
    with patient(inherited) as gone:
        gone.wait()
        with patient(locker(path, "pass", "fcntl.flock(file, fcntl.LOCK_EX)")) as waiter:
            until_in(waiter.pid, "flock")
            held, _ = sorted(locks_of(waiter.pid), key=lambda entry: bool(entry["waiting"]))
    assert (held["pid"], held["path"], held["command_line"]) == (gone.pid, str(path), [])
    assert [heir["name"] for heir in held["held_by"]] == ["cat"]


def test_a_lock_of_an_open_file_has_no_pid_and_its_holder_is_found(tmp_path: Path) -> None:
    path = tmp_path / "locked"
    ofd = "fcntl.fcntl(file, {}, bytes([fcntl.F_WRLCK]) + bytes(31))"
    with (
        patient(locker(path, ofd.format("fcntl.F_OFD_SETLK"))) as holder,
        patient(locker(path, "pass", ofd.format("fcntl.F_OFD_SETLKW"))) as waiter,
    ):
        until_in(waiter.pid, "fcntl")
        held, waited = sorted(locks_of(waiter.pid), key=lambda entry: bool(entry["waiting"]))
    assert (held["kind"], held["pid"], waited["pid"]) == ("OFDLCK", -1, waiter.pid)
    assert [heir["pid"] for heir in held["held_by"]] == [holder.pid]


# -- memory and the host


def test_memory_is_told_in_its_accounts() -> None:
    source = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, ({4096 * MIB}, {4096 * MIB}))
        block = bytearray(b"x") * {50 * MIB}
        say_ready()
        input()
    """
    with patient(source) as one, open_patient(one.pid) as examined:
        found = memory.collect(examined)
    assert 50 * MIB < found["anonymous_bytes"] <= found["uss_bytes"] < 100 * MIB
    assert found["uss_bytes"] < found["pss_bytes"] < found["statm"]["resident"] + MIB
    assert found["swap_bytes"] == 0
    assert found["heap_bytes"] < 20 * MIB
    biggest = found["biggest"][0]
    assert 50 * MIB <= biggest["bytes"] < 60 * MIB
    assert biggest["name"] == ""
    assert found["limits"]["rlimit_as_bytes"] == 4096 * MIB
    assert found["limits"]["rlimit_data_bytes"] is None


def test_growth_within_the_window() -> None:
    source = """
        import time
        kept = []
        say_ready()
        while True:
            kept.append(bytes(b"x") * 500_000)
            time.sleep(0.005)
    """
    with patient(source) as one, open_patient(one.pid) as examined:
        found = growth.collect(examined)
    ages = [point[0] for point in found["points"]]
    sizes = [point[1] for point in found["points"]]
    assert (len(ages), ages[-1], ages == sorted(ages)) == (4, 0, True)
    assert sizes == sorted(sizes)
    assert 2 * MIB < sizes[-1] - sizes[0] < 40 * MIB
    assert found["points"][-1][2:] == [1, 3]
    assert found["minor_faults_per_s"] > 1000
    assert (found["source"], found["baseline"]) == ("window", None)


@pytest.fixture
def group() -> Iterator[tuple[Path, str]]:
    """A control group for CPU time and one for memory, both of version 1, removed afterwards."""
    name = f"autopsy-test-{os.getpid()}"
    made = [Path(f"/sys/fs/cgroup/{one}/{name}") for one in ("cpu", "memory")]
    if not all(os.access(one.parent, os.W_OK) for one in made):
        pytest.xfail("no control group of version 1 may be made on this machine")
    for one in made:
        one.mkdir()
    yield made[0], name
    for one in made:
        eventually(lambda one=one: not (one / "cgroup.procs").read_text(), 5, "it is empty")  # type: ignore[misc]
        one.rmdir()


def test_a_quota_and_a_limit_are_seen_from_below(group: tuple[Path, str]) -> None:
    directory, name = group
    limited = Path(f"/sys/fs/cgroup/memory/{name}")
    (directory / "cpu.cfs_quota_us").write_text("10000")
    (limited / "memory.limit_in_bytes").write_text(str(200 * MIB))
    with patient("say_ready()\nwhile True:\n    pass") as one:
        for each in (directory, limited):
            (each / "cgroup.procs").write_text(str(one.pid))
        # On a full host it may not even get what its quota allows.
        eventually(lambda: cpu_group(one.pid)["throttled_ratio"] > 0.5, 20, "it is throttled")
        eventually(lambda: cpu_group(one.pid)["throttled_s"] > 0.1, 20, "it is held back")
        with open_patient(one.pid) as examined:
            seen, used = host.collect(examined), memory.collect(examined)
    cpu = seen["cgroup"]["cpu"]
    assert (cpu["path"], cpu["cores"]) == (f"/{name}", 0.1)
    found = seen["cgroup"]["memory"]
    assert (found["path"], found["limit_bytes"]) == (f"/{name}", 200 * MIB)
    assert 0 <= found["used_bytes"] < 200 * MIB
    assert used["limits"]["cgroup_bytes"] == 200 * MIB


def test_a_patient_that_ends_leaves_no_error(tmp_path: Path) -> None:
    """Each collector meets a process that is gone or only waits to be reaped."""
    with (
        patient("say_ready()\nimport sys\nsys.stdin.read()") as one,
        open_patient(one.pid) as examined,
    ):
        assert one.stdin is not None
        one.stdin.close()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        seen = [_outcome(collect, examined) for collect in COLLECTORS]
        one.wait()
        seen += [_outcome(collect, examined) for collect in COLLECTORS]
    assert set(seen) <= {"ok", "Skipped"}


COLLECTORS = (
    connection.collector(Holders()),
    descriptor.collector(Holders()),
    filelock.collect,
    growth.collect,
    host.collect,
    memory.collect,
    process.collect,
    process.collect_movement,
    tree.collect,
)


def _outcome(collect: Any, examined: Patient) -> str:
    try:
        collect(examined)
    except Exception as exc:
        return type(exc).__name__
    return "ok"


def test_which_thread_is_which_when_py_spy_does_not_tell() -> None:
    """As before Python 3.11, without being stopped."""
    met = threading.Barrier(3)
    leave = threading.Event()

    def stay() -> None:
        met.wait()
        leave.wait()

    threads = [threading.Thread(target=stay) for _ in range(2)]
    for one in threads:
        one.start()
    met.wait()
    named: list[Payload] = [
        {"os_thread_id": None, "thread_id": one.ident, "thread_name": one.name, "owns_gil": False,
         "active": True, "frames": []}
        for one in threads
    ]  # fmt: skip
    try:
        found = pyspy.parse(json.dumps(named).encode(), os.getpid())
        unknown = pyspy.parse(json.dumps(named).encode(), 0)
    finally:
        leave.set()
        for one in threads:
            one.join()
    assert [(one.tid, one.name) for one in found.threads] == [
        (one.native_id, one.name) for one in threads
    ]
    assert unknown.reason == "py-spy did not tell which thread is which"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up a user, as root")
def test_a_file_that_a_process_may_not_read_is_not_read_for_it(tmp_path: Path) -> None:
    hidden, shown, fifo = (tmp_path / name for name in ("hidden", "shown", "fifo"))
    for file, mode in ((hidden, 0o600), (shown, 0o644)):
        file.write_text("text")
        file.chmod(mode)
    os.mkfifo(fifo)
    files = (hidden, shown, fifo)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with subprocess.Popen([*nobody, "sleep", "100"]) as process:
        eventually(lambda: "65534" in (procfs.status(f"/proc/{process.pid}/status") or {})["Uid"])
        found = [procfs.read_as_process(process.pid, str(one), 100) for one in files]
        process.kill()
    assert found == [None, "text", None]
    own = [procfs.read_as_process(os.getpid(), str(one), 100) for one in files]
    assert own == ["text", "text", None]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a pid namespace, as root")
def test_threads_of_a_container_are_known_by_their_ids_out_here() -> None:
    container = ("unshare", "--pid", "--fork", "--kill-child=KILL", "sleep", "100")
    with subprocess.Popen(container) as process:
        [inside] = eventually(lambda: list(procfs.child_ids(process.pid)))
        eventually(lambda: procfs.command_line(inside) == ["sleep", "100"])
        assert procfs.inner_thread_ids(inside) == {1: inside}
        entry = {"os_thread_id": 1, "thread_name": "x", "owns_gil": False, "active": False,
                 "frames": []}  # fmt: skip
        [found] = pyspy.parse(json.dumps([entry]).encode(), inside).threads
        process.kill()
    assert (found.tid, found.name) == (inside, "x")
