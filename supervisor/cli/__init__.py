"""The command line: `supervisor COMMAND …`.

Secret kept here: which module holds which command; only the one that is called is imported, so
that `supervisor --help` stays below 0.2 s. Exit codes: 0 ok, 1 refused, 2 usage or configuration,
69 a dependency is away, 130 interrupted.
"""

from __future__ import annotations

from supervisor.cli.group import build

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit."""
    build().main()
