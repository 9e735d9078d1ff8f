"""A pytest plugin for CI: a test that is skipped has tested nothing, so the run fails.

`python -m pytest -p tools.pytest_no_skip`; `make test` adds it when CI=true.
"""

from __future__ import annotations

import pytest


class NoSkip:
    """Counts the skips of a session and turns its success into a failure."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skip, but not an expected failure."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that skipped itself as a whole."""
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session."""
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        for name in self.skipped:
            terminalreporter.write_line(f"SKIPPED in CI, which is a failure: {name}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Register."""
    config.pluginmanager.register(NoSkip(), "no-skip")
