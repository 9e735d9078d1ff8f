"""The tree of commands, loaded one at a time, and the edge at which every error ends.

Secret kept here: how an error becomes lines on stderr and an exit code. Invariant: no traceback
reaches a person except for a bug; `error:` and the further problems, one a line, end in `remedy:`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import click

from supervisor.errors import SupervisorError

EXIT_REFUSED, EXIT_USAGE, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 1, 2, 130, 141

#: Command → module, attribute, one line for `--help`. In the order people meet them.
COMMANDS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "demo": ("demo", "demo", "Show it at work on a throw-away store."),
        "run": ("run", "run", "Run a node: take tasks of an app and watch over them."),
        "submit": ("submit", "submit", "Submit one task, or a file of them."),
        "list": ("listing", "list_tasks", "List tasks, newest first."),
        "show": ("show", "show", "Show one task with its attempts, result and autopsies."),
        "logs": ("logs", "logs", "Print what an attempt wrote."),
        "history": ("show", "history", "Print the audit trail of a task."),
        "cancel": ("act", "cancel", "Ask tasks to stop."),
        "rerun": ("act", "rerun", "Run FAILED or TIMEOUT tasks again."),
        "fail": ("act", "fail", "End stuck tasks as FAILED."),
        "pause": ("queues", "pause", "Let no more tasks of a queue start."),
        "resume": ("queues", "resume", "Let tasks of a paused queue start again."),
        "queues": ("queues", "queues", "List queues with their depth."),
        "nodes": ("nodes", "nodes", "List the nodes of the store with their leases."),
        "node": ("node", "node", "Ask a node to drain, to stop, or for evidence of a task."),
        "top": ("top", "top", "Watch nodes, workers and running tasks."),
        "autopsy": ("autopsy", "autopsy", "Look at why tasks were stuck."),
        "web": ("web", "web", "Serve pages to look at tasks and autopsies, and to step in."),
        "users": ("users", "users", "Say who may sign in at the pages."),
        "tokens": ("users", "tokens", "Make tokens with which programs use the pages."),
        "archive": ("archive", "archive", "Move what has long ended to cold files; search them."),
        "check": ("check", "check", "Check settings, store, app and host before a start."),
        "config": ("config", "config", "Show every setting in force and where it comes from."),
        "rules": ("monitoring", "rules", "Write alert rules for Prometheus and Alertmanager."),
        "dashboards": ("monitoring", "dashboards", "Write dashboards for Grafana."),
        "db": ("db", "db", "Prepare the store."),
    }
)


class Edge(click.Group):
    """A group whose `main` turns every error into lines and an exit code."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        given = list(sys.argv[1:] if args is None else args)
        extra.update(standalone_mode=False, prog_name="supervisor")
        try:
            answer = super().main(given, **extra)
            sys.stdout.flush()
            code = answer if isinstance(answer, int) else 0
        except click.exceptions.Exit as exc:
            code = exc.exit_code
        except click.exceptions.NoArgsIsHelpError as exc:
            click.echo(exc.format_message(), err=True)
            code = EXIT_USAGE
        except BrokenPipeError:
            code = _close_pipe()
        except (click.Abort, KeyboardInterrupt):
            code = EXIT_INTERRUPTED
        except Exception as exc:
            code = report(exc, as_json="--json" in given)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:  # click would take it for success
            raise click.exceptions.Exit(_close_pipe()) from exc


class LazyGroup(Edge):
    """The root: knows names and one line of each command, imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 (click's signature)
        name: str,
    ) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, line = COMMANDS[name]
        command: click.Command = getattr(
            importlib.import_module(f"supervisor.cli.{module}"), attribute
        )
        command.short_help = line
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(f"no command {args[0]!r}{_near(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 (click's signature)
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def build() -> LazyGroup:
    """Make the root command."""
    from supervisor import __version__

    root = LazyGroup(
        name="supervisor",
        help="Run background tasks, and know why a stuck one is stuck before it is killed.\n\n"
        "Example: supervisor demo",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    return click.version_option(__version__, prog_name="supervisor")(root)


def report(exc: Exception, *, as_json: bool) -> int:
    """Print an error with its remedy on stderr and return the exit code."""
    message, remedy, facts, code = _explain(exc)
    if as_json:
        import json

        line = {"error": message, "remedy": remedy, "facts": facts}
        click.echo(json.dumps(line, ensure_ascii=False, default=str), err=True)
    else:
        from supervisor.words.text import plain

        color = False if os.environ.get("NO_COLOR") else None
        first, *others = _problems(exc) or [message]
        click.echo(f"{click.style('error:', fg='red')} {plain(first)}", err=True, color=color)
        for other in others:
            click.echo(f"       {plain(other)}", err=True)
        click.echo(f"remedy: {plain(remedy)}", err=True)
    return code


def _explain(exc: Exception) -> tuple[str, str, Mapping[str, object], int]:
    if isinstance(exc, SupervisorError):
        remedy = exc.remedy or "See the facts with --json, and the log of the node."
        problems = _problems(exc)
        facts = {"problems": problems} if problems else exc.facts
        return exc.message, remedy, facts, exc.exit_code
    if isinstance(exc, click.ClickException):
        path = exc.ctx.command_path if isinstance(exc, click.UsageError) and exc.ctx else ""
        return exc.format_message(), f"See `{path or 'supervisor'} --help`.", {}, EXIT_USAGE
    import traceback  # a bug of ours: the only case in which a person needs to see one

    click.echo(traceback.format_exc(), err=True, nl=False)
    kind = type(exc).__name__
    return f"{kind}: {exc}", "This is a bug: report it with the lines above.", {"type": kind}, 1


def _problems(exc: Exception) -> list[str]:
    """Return what is wrong, one by one, where an error names several things."""
    found: Any = getattr(exc, "problems", None) or getattr(exc, "facts", {}).get("problems", ())
    return [str(problem) for problem in found]


def _near(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(COMMANDS), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _close_pipe() -> int:
    """The reader of our output left (`| head`): nobody is there to be told."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE
