"""The shape of the code: imports go down, children are light, the autopsy stands alone."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for top in ("supervisor", "autopsy") for path in (ROOT / top).rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 450, 50
#: Only the node's and the person's side may load these: start time and memory of every child.
HEAVY = {
    "alembic",
    "click",
    "flask",
    "prometheus_client",
    "psutil",
    "redis",
    "rich",
    "sqlalchemy",
    "structlog",
}


def ran(*command: str) -> str:
    """Run a command in the project and return what it said; it must succeed and not complain."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def loaded(statement: str) -> list[str]:
    """Return the modules of a fresh interpreter after this statement."""
    return ran("-c", f"{statement}\nimport sys\nprint(*sys.modules)").split()


def top(modules: list[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """Yield every module that a file imports anywhere, in functions too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_imports_keep_the_contracts() -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken\.", ran("-c", program))


@pytest.mark.parametrize(
    "statement",
    [
        "import supervisor.worker.main, supervisor.worker.zygote; from supervisor import App",
        "from supervisor import App; app = App(); app.task(name='t')(lambda ctx: None)",
        "import autopsy.agent, autopsy.ring, autopsy.memfd, autopsy.stackring, autopsy.sampler",
    ],
    ids=["worker", "program", "patient"],
)
def test_what_runs_in_a_child_is_light(statement: str) -> None:
    assert top(loaded(statement)) & HEAVY == set()


def test_a_program_that_declares_tasks_loads_no_store() -> None:
    modules = ran(
        "-c", "from supervisor import App; App(); import sys; print(*sys.modules)"
    ).split()
    outside = ("supervisor.store", "supervisor.queue", "supervisor.node", "supervisor.client")
    assert [name for name in modules if name.startswith(outside)] == []


def test_the_autopsy_imports_nothing_of_the_supervisor() -> None:
    found = [
        (name_of(path), module)
        for path in SOURCES
        if path.is_relative_to(ROOT / "autopsy")
        for module in imports_of(path)
        if module.split(".")[0] == "supervisor"
    ]
    assert found == []


def test_the_command_autopsy_loads_nothing_of_the_supervisor() -> None:
    modules = loaded("import autopsy.__main__, autopsy.capture, autopsy.report")
    assert "supervisor" not in top(modules)


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    too_long = {
        f"{name_of(path)}:{node.lineno} {node.name}": lines
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert too_long == {}


def test_every_module_says_what_it_keeps() -> None:
    silent = [name_of(path) for path in SOURCES if not ast.get_docstring(parsed(path))]
    assert silent == []
