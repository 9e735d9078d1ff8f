"""Every program of a directory is made stuck and examined as a user would: `autopsy PID --json`.

Secret kept here: how a directory is scored (a copy, servers of its own, two programs at a time) and
what an answer looks like. Programs that use a server have it for themselves.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import servers
from score.patient import CannotRun, NotStuck, stuck
from score.program import Program, programs_of
from score.verdict import Row, Verdict, judged

#: What programs take where nobody tells them; in the copy that runs it is ours.
USUAL_PORTS = ("55432", "56379")
REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 25.0
AT_A_TIME = 2


@dataclass(frozen=True, slots=True)
class Bench:
    """Where programs are examined: a copy of their directory, and the servers that they use."""

    programs: Sequence[Program]
    environment: dict[str, str]
    bundles: Path | None = None
    autopsy: Path = REPOSITORY
    alone: threading.Lock = field(default_factory=threading.Lock)

    def examine(self, program: Program) -> Row:
        """Make one program stuck and return what the autopsy said of it."""
        with self.alone if program.servers else nullcontext():
            try:
                with stuck(program, self.environment) as patient:
                    answer = self._answer(program, patient.pid)
            except CannotRun as exc:
                return self._row(program, Verdict.NOT_RUN, str(exc))
            except NotStuck as exc:
                return self._row(program, Verdict.WRONG, str(exc))
            finally:
                if program.servers:
                    self._clear_servers()
        answers = [(d["code"], d["confidence"], d["evidence"]) for d in answer["diagnosis"]]
        return judged(
            program.name, program.expected, program.is_control, answers, float(answer["ms"])
        )

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
    chosen = [program for program in bench.programs if only in program.name]

    def one(program: Program) -> Row:
        row = bench.examine(program)
        tell(row)
        return row

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(one, [program for program in chosen for _ in range(repeat)]))


@contextmanager
def bench_of(
    directory: Path,
    bundles: Path | None = None,
    autopsy: Path = REPOSITORY,
    path: Path | None = None,
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
        _rewrite_ports(copy, dict(zip(USUAL_PORTS, (postgresql.port, redis.port), strict=True)))
        if bundles is not None:
            bundles.mkdir(parents=True, exist_ok=True)
        environment = {
            "STUCK_PG_DSN": postgresql.dsn,
            "STUCK_REDIS_PORT": str(redis.port),
            "PYTHONPATH": str(path or ""),
        }
        yield Bench(programs_of(copy), environment, bundles, autopsy)


def _rewrite_ports(directory: Path, ports: dict[str, int]) -> None:
    for path in directory.glob("*.py"):
        text = path.read_text()
        for usual, ours in ports.items():
            text = text.replace(usual, str(ours))
        path.write_text(text)
