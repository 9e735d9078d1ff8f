"""The Dockerfile carried out without an engine: its own steps, in a root made of this machine.

Secret kept here: what stands in for the base image (this machine's /usr, its Python, a bare /etc)
and how a step gets the files that a stage has. Needs root and bubblewrap.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compose import REPOSITORY
from e2b_dockerfile_utils import (
    DockerfileInstruction,
    PatternMatcher,
    ShellLex,
    parse_dockerfile_ast,
)

DOCKERFILE = REPOSITORY / "Dockerfile"
#: What a stage may write to. All else of its root is this machine's, read-only.
WRITABLE = ("app", "etc", "opt", "src", "var/lib")
#: Where programs of the base image are, beside its Python.
BASE_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_OF_THIS_MACHINE = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "resolv.conf")
_ETC = ("login.defs", "localtime", "ssl", "pip.conf", *_OF_THIS_MACHINE)
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


@dataclass(slots=True)
class Stage:
    """A stage of the build, and at the end the image."""

    name: str
    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    command: tuple[str, ...] = ()

    @property
    def base(self) -> Path:
        """Return the Python of the base image, which bears its path of this machine in it."""
        return self.root.parent / "base"

    def inside(self, path: str) -> Path:
        """Return where a path of the stage lies on this machine."""
        return self.root / os.path.normpath(os.path.join(self.workdir, path)).lstrip("/")

    def binds(self, option: str) -> list[str]:
        """Return the words for bubblewrap that put the stage's directories into a root."""
        words = []
        for name in WRITABLE:
            words += [*parents(f"/{name}"), option, str(self.root / name), f"/{name}"]
        return words


def instructions(text: str | None = None) -> list[DockerfileInstruction]:
    """Return the instructions of a text, or of the Dockerfile."""
    return parse_dockerfile_ast(text or DOCKERFILE.read_text("utf-8")).instructions


def ignored() -> PatternMatcher:
    """Return what the build context leaves out."""
    lines = (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines()
    return PatternMatcher([line for line in lines if line and not line.startswith("#")])


def context_files(source: str) -> Iterator[Path]:
    """Yield the files of one COPY source that reach the build, relative to the repository."""
    matcher, top = ignored(), REPOSITORY / source
    for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
        inside = path.relative_to(REPOSITORY)
        if not path.is_dir() and not matcher.matches(inside.as_posix()):
            yield inside


def build(directory: Path) -> Stage:
    """Carry out the Dockerfile below a directory; return the last stage."""
    directory.chmod(0o755)  # the user of the image looks into it
    subprocess.run([_python(), "-m", "venv", directory / "base"], check=True)
    stages: list[Stage] = []
    for instruction in instructions():
        if instruction.name == "FROM":
            name = instruction.args[2] if len(instruction.args) > 1 else ""
            stages.append(_new_stage(name, directory / f"stage-{len(stages)}"))
        else:
            _carry_out(instruction, stages)
    return stages[-1]


def run(line: str, stage: Stage) -> str:
    """Carry out the line of a RUN as root and return what it said."""
    base = str(stage.base)
    # How this machine reaches its package index is no business of the Dockerfile.
    outside = {name: value for name, value in os.environ.items() if _is_of_the_network(name)}
    command = [
        *("bwrap", "--die-with-parent", "--cap-add", "ALL", *machine()),
        *("--tmpfs", "/tmp", *parents(base), "--bind", base, base, *stage.binds("--bind")),
        *("--chdir", stage.workdir, "/bin/sh", "-ec", line),
    ]
    done = subprocess.run(
        command, env=outside | stage.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def parents(path: str) -> list[str]:
    """Return the words that make the parents of a mount point for everybody, not for us alone."""
    above = [str(one) for one in reversed(Path(path).parents) if str(one) != "/"]
    return [word for one in above for word in ("--perms", "0755", "--dir", one)]


def machine() -> list[str]:
    """Return the words for bubblewrap that make the base image: programs, libraries, Python."""
    words = []
    for path in map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64")):
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            words += ["--ro-bind", str(path), str(path)]
    prefix = os.path.realpath(sys.base_prefix)
    if not prefix.startswith("/usr"):
        words += [*parents(prefix), "--ro-bind", prefix, prefix]
    return [*words, "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"]


def _python() -> str:
    return os.path.realpath(sys.executable)


def _new_stage(name: str, root: Path) -> Stage:
    for inner in WRITABLE:
        (root / inner).mkdir(parents=True)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
    for one in map(Path, _ETC):
        source = "/etc" / one
        if source.is_dir():
            shutil.copytree(source, root / "etc" / one, symlinks=True)
        elif source.exists():
            shutil.copy(source, root / "etc" / one)
    stage = Stage(name, root)
    stage.environment["PATH"] = f"{stage.base}/bin:{BASE_PATH}"
    return stage


def _carry_out(instruction: DockerfileInstruction, stages: Sequence[Stage]) -> None:
    stage, args = stages[-1], instruction.args
    match instruction.name:
        case "ENV":
            for name, value in zip(args[::3], args[1::3], strict=True):
                stage.environment[name] = _expand(value, stage.environment)
        case "WORKDIR":
            stage.workdir = str(Path(stage.workdir, args[0]))
        case "USER":
            stage.user = args[0]
        case "CMD":
            stage.command = tuple(args)
        case "COPY":
            _copy(instruction, stages)
        case "RUN":
            run(args[0], stage)
        case "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK":
            pass  # of these a container knows by compose
        case other:
            raise AssertionError(f"{other} is new in the Dockerfile")


def _expand(value: str, environment: Mapping[str, str]) -> str:
    (word,) = ShellLex("\\").process_words(value)
    for name in sorted(environment, key=len, reverse=True):
        word = word.replace(f"${name}", environment[name])
    return word


def _copy(instruction: DockerfileInstruction, stages: Sequence[Stage]) -> None:
    stage = stages[-1]
    *sources, target = instruction.args
    if instruction.flags:
        (option,) = instruction.flags
        origin = next(one for one in stages if one.name == option.removeprefix("--from="))
        shutil.copytree(origin.inside(sources[0]), stage.inside(target), symlinks=True)
        return
    for source in sources:
        for inside in context_files(source):
            if (REPOSITORY / source).is_dir():
                place = stage.inside(target) / inside.relative_to(source)
            else:
                place = stage.inside(target) / inside.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / inside, place)


def _is_of_the_network(name: str) -> bool:
    return name.lower().endswith("_proxy") or name.startswith(("PIP_INDEX", "PIP_EXTRA", "SSL_"))
