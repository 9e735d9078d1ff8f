"""The options of the `autopsy` command, one parser for each of its forms.

Secret: their names, defaults and help. Called by `__main__` alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from autopsy.bundle import MAX_BYTES
from autopsy.collect.database.asking import VARIABLE
from autopsy.errors import UsageError

_DEFAULT_BUDGET_S = 10.0


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours, with a remedy."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, remedy=f"Run `{self.prog} --help` to see the options.")


def of_examine() -> argparse.ArgumentParser:
    """Return the parser of `autopsy PID`."""
    parser = _Parser(prog="autopsy", description="Examine a running Python process.")
    _add_common(parser)
    parser.add_argument(
        "--native",
        action="store_true",
        help="show the calls of C code too; the process stands still for a tenth of a second or so",
    )
    parser.add_argument("--out", type=Path, help="also write the bundle to this .zip file")
    parser.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    parser.add_argument(
        "--max-bytes",
        type=int,
        help="cut what is in the bundle to this, the least worth first (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")
    return parser


def of_show() -> argparse.ArgumentParser:
    """Return the parser of `autopsy show`."""
    parser = _Parser(prog="autopsy show", description="Print the report of a bundle.")
    parser.add_argument("bundle", type=Path, help="the .zip file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything in it as JSON")
    form.add_argument("--html", metavar="FILE", help="write its HTML page to a file; - prints it")
    return parser


def of_prune() -> argparse.ArgumentParser:
    """Return the parser of `autopsy prune`."""
    parser = _Parser(prog="autopsy prune", description="Remove bundles of a directory.")
    parser.add_argument("directory", type=Path, help="where the bundles are")
    parser.add_argument("--keep-days", type=float, default=14, help="default: %(default)s")
    parser.add_argument("--keep-bytes", type=int, default=2 * 2**30, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def of_capture() -> argparse.ArgumentParser:
    """Return the parser of `autopsy capture`."""
    parser = _Parser(
        prog="autopsy capture",
        description="Capture for a supervisor: writes a bundle and prints one line of JSON.",
    )
    _add_common(parser)
    parser.add_argument("--out", type=Path, required=True, help="the .zip file to write")
    parser.add_argument("--facts", metavar="FILE", help="JSON object to store; - reads stdin")
    parser.add_argument(
        "--facts-only",
        action="store_true",
        help="store the facts (and the rings and --output if given) and examine nothing",
    )
    parser.add_argument(
        "--log-ring", metavar="PATH", help="read the log ring here, not through the process"
    )
    parser.add_argument(
        "--stack-ring", metavar="PATH", help="read the stack ring here, not through the process"
    )
    parser.add_argument(
        "--output", metavar="PATH", help="read the process's output here, not through the process"
    )
    parser.add_argument(
        "--dump", metavar="PATH", help="read what faulthandler dumps here, not through the process"
    )
    parser.add_argument(
        "--output-start", type=int, metavar="N", help="leave out output before this byte"
    )
    parser.add_argument(
        "--begun-at",
        type=float,
        metavar="T",
        help="leave out log records from before this time (Unix seconds)",
    )
    parser.add_argument(
        "--before-kill",
        action="store_true",
        help="an examination that lets the process live gives way, instead of refusing this one",
    )
    parser.add_argument(
        "--end-statements",
        action="store_true",
        help="at last, stop the process and end its sessions in PostgreSQL: it must be killed next",
    )
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    # What only one of the two forms takes is for the other as if nobody had given it.
    parser.set_defaults(
        native=False,
        max_bytes=MAX_BYTES,
        facts_only=False,
        before_kill=False,
        end_statements=False,
        log_ring=None,
        stack_ring=None,
        output=None,
        output_start=0,
        begun_at=0.0,
        dump=None,
    )
    parser.add_argument("pid", type=int, help="the process to examine")
    parser.add_argument(
        "--budget",
        type=float,
        default=_DEFAULT_BUDGET_S,
        metavar="S",
        help="seconds after which the command has ended, whatever happens (default: %(default)s)",
    )
    parser.add_argument(
        "--start-ticks", type=int, metavar="N", help="refuse if the process started at another tick"
    )
    parser.add_argument(
        "--py-spy", metavar="PATH", help="the py-spy to use (default: the one beside this Python)"
    )
    parser.add_argument(
        "--memory-over",
        type=int,
        metavar="BYTES",
        help="count the objects of a process that uses more memory (default: 64 MiB)",
    )
    parser.add_argument(
        "--database",
        action="append",
        default=[],
        metavar="URL",
        help="an account to ask a PostgreSQL or Redis server with; can be given more than once "
        f"(default: those in {VARIABLE}, then what the process itself was given)",
    )
    parser.add_argument(
        "--no-databases", action="store_true", help="ask no database server anything"
    )
