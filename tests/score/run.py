"""Every program of a directory is made stuck and examined as a user would: `autopsy PID --json`.

Secret kept here: how a directory is scored (a copy, servers of its own, at most three programs at a
time, two while one computes) and what an answer looks like. Programs that use a server have it for
themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import servers
from score.patient import CannotRun, NotStuck, stuck
from score.program import SERVERS, SETTLE_S, Program, programs_of
from score.verdict import Row, Verdict, judged

#: What programs take where nobody tells them; in the copy that runs it is ours.
USUAL_PORTS = ("55432", "56379")
REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 25.0
#: A busy machine takes longer to begin with a look; one that is too early is no look.
ENDS_AFTER_S = (0.3, 0.5, 0.8)
AT_A_TIME = 3
#: So many that only wait run beside one that computes.
BESIDE_WORK = 1
#: Where the modules lie that every program may import.
STAGE = Path(__file__).parents[1] / "programs" / "stuck"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where programs are examined: copies of them and of what examines, and their servers."""

    programs: Sequence[Program]
    environment: dict[str, str]
    autopsy: Path
    bundles: Path | None = None
    settle_s: float = SETTLE_S

    def examine(self, program: Program) -> Row:
        """Make one program stuck and return what the autopsy said of it."""
        try:
            answer = self._examined(program)
        except CannotRun as exc:
            return self._row(program, Verdict.NOT_RUN, str(exc))
        except NotStuck as exc:
            return self._row(program, Verdict.WRONG, str(exc))
        finally:
            if program.needs == SERVERS:
                self._clear_servers()
        answers = [(d["code"], d["confidence"], d["evidence"]) for d in answer["diagnosis"]]
        return judged(
            program.name, program.expected, program.is_control, answers, float(answer["ms"])
        )

    def _examined(self, program: Program) -> dict[str, Any]:
        """Return the answer. A program that had ended before the first look is tried again."""
        for ends_after_s in ENDS_AFTER_S:
            with stuck(program, self.environment, self.settle_s, ends_after_s) as patient:
                answer = self._answer(program, patient.pid)
            codes = [one["code"] for one in answer["diagnosis"]]
            if program.expected != ("none.exited",) or codes[:1] != ["zombie.process"]:
                break
        return answer

    def _answer(self, program: Program, pid: int) -> dict[str, Any]:
        command = [sys.executable, "-m", "autopsy", str(pid), "--json"]
        if self.bundles is not None:
            command += ["--out", str(self.bundles / f"{program.name}.zip")]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=self.autopsy
            )
            answer: dict[str, Any] = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return self._no_answer(f"no answer within {PATIENCE_S:.0f} s")
        except ValueError:
            return self._no_answer(done.stderr.strip()[-500:])
        return answer

    def _no_answer(self, why: str) -> dict[str, Any]:
        return {
            "ms": 0,
            "diagnosis": [{"code": "(no answer)", "confidence": 0.0, "evidence": [why]}],
        }

    def _row(self, program: Program, verdict: Verdict, why: str) -> Row:
        row = judged(program.name, program.expected, program.is_control, [], 0.0)
        return replace(row, verdict=verdict, evidence=(why,))

    def _clear_servers(self) -> None:
        """End what a killed program has left running in the database."""
        with psycopg.connect(self.environment["STUCK_PG_DSN"], autocommit=True) as line:
            line.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and backend_type = 'client backend'"
            )


def score(
    bench: Bench, only: str = "", repeat: int = 1, tell: Callable[[Row], None] = lambda row: None
) -> list[Row]:
    """Examine the programs whose name contains `only`, each so many times."""
    waiting = [one for one in bench.programs if only in one.name for _ in range(repeat)]
    # First what needs most room, and what has to queue: it must not be all that is left at the end.
    waiting.sort(key=lambda one: (one.only_waits, not one.needs))
    rows: list[Row] = []
    turn, running = threading.Condition(), list[Program]()

    def take() -> Program | None:
        """Return the next program that may run beside the others; None when there is no more."""
        while waiting:
            program = next((one for one in waiting if fits(one, running, waiting)), None)
            if program is not None:
                waiting.remove(program)
                running.append(program)
                return program
            turn.wait()
        return None

    def examine() -> None:
        while True:
            with turn:
                program = take()
            if program is None:
                return
            row = bench.examine(program)
            with turn:
                running.remove(program)
                turn.notify_all()
                rows.append(row)
                tell(row)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for one in [pool.submit(examine) for _ in range(AT_A_TIME)]:
            one.result()
    return sorted(rows, key=lambda row: row.case)


def fits(program: Program, running: Sequence[Program], waiting: Sequence[Program]) -> bool:
    """Say whether a program may run beside those that run, while these wait for their turn."""
    if program.needs and program.needs in {one.needs for one in running}:
        return False
    working = sum(not one.only_waits for one in running)
    if not program.only_waits:
        return not working and len(running) <= BESIDE_WORK
    # Room is kept for one that works while there is one.
    some_work = working or any(not one.only_waits for one in waiting)
    return len(running) - working < (BESIDE_WORK if some_work else AT_A_TIME)


@contextmanager
def bench_of(
    directory: Path,
    bundles: Path | None = None,
    autopsy: Path = REPOSITORY,
    path: Path | None = None,
    settle_s: float = SETTLE_S,
) -> Iterator[Bench]:
    """Copy a directory of programs and start the servers that they use.

    `autopsy` is where the package that examines lies, `path` what more the programs may import.
    Raises ServerMissing.
    """
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="score-"))
        copy = Path(place) / "programs"
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("__pycache__"))
        postgresql = servers.start_postgresql()
        stack.callback(postgresql.stop)
        redis = servers.start_redis()
        stack.callback(redis.stop)
        # A copy, too: it must not change under the programs of one score.
        shutil.copytree(autopsy / "autopsy", Path(place) / "autopsy")
        _rewrite_ports(copy, dict(zip(USUAL_PORTS, (postgresql.port, redis.port), strict=True)))
        if bundles is not None:
            bundles = bundles.resolve()
            bundles.mkdir(parents=True, exist_ok=True)
        environment = {
            "STUCK_PG_DSN": postgresql.dsn,
            "STUCK_REDIS_PORT": str(redis.port),
            "PYTHONPATH": os.pathsep.join(map(str, [STAGE, *([path] if path else [])])),
        }
        yield Bench(programs_of(copy), environment, Path(place), bundles, settle_s)


def _rewrite_ports(directory: Path, ports: dict[str, int]) -> None:
    for path in directory.glob("*.py"):
        text = path.read_text()
        for usual, ours in ports.items():
            text = text.replace(usual, str(ours))
        path.write_text(text)
