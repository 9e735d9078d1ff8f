"""Alerts about the services that tasks call, and the budget of errors over a month."""

from __future__ import annotations

from types import MappingProxyType

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_SERVICE = ("service",)

SERVICES = (
    Alert(
        name="DependencyErrorsHigh",
        expr="""
            service:supervisor_calls_failed:ratio_rate5m > <dependency_error_share>
            and
              service:supervisor_calls:increase5m >= 10
        """,
        hold="2m",
        severity=Severity.WARNING,
        summary="More than <dependency_error_share:percent> of the calls to {{ $labels.service }} "
        "fail.",
        description="{{ $value | humanizePercentage }} of the calls of the last 5 minutes raised.",
        board=Board.DEPENDENCIES,
        by=_SERVICE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Is the service known to be down? Its owner, its status page.",
                "What do the tasks say? `supervisor list --state FAILED`, `supervisor show ID`.",
                (
                    'Save the retries: `supervisor pause QUEUE --reason "SERVICE is down"`, and '
                    '`supervisor resume QUEUE --reason "it is back"` afterwards.'
                ),
            ),
            means='Calls in `with ctx.call("SERVICE")` that left by an exception.',
            ignore="When the service answers *not found* by an exception: catch it inside.",
        ),
    ),
    Alert(
        name="DependencySlow",
        expr="""
            service:supervisor_call_duration_seconds:mean5m > <dependency_mean_s>
            and
              service:supervisor_calls:increase5m >= 10
        """,
        hold="2m",
        severity=Severity.WARNING,
        summary="{{ $labels.service }} takes more than <dependency_mean_s:duration> on average.",
        description="The mean of the last 5 minutes is {{ $value | humanizeDuration }}.",
        board=Board.DEPENDENCIES,
        by=_SERVICE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Is it slow for others, too? Its owner, its own dashboard.",
                (
                    "Is it we who load it? The dashboard shows calls a second and in flight; lower "
                    '`workers`, or pause a queue: `supervisor pause QUEUE --reason "…"`.'
                ),
                (
                    "A database: `supervisor autopsy capture ID` of a running task shows who holds "
                    "the lock it waits for."
                ),
            ),
            means="Mean time of calls that ended. Those that hang are seen by DependencyHanging.",
            ignore="Services that are that slow by nature: export with a higher number.",
        ),
    ),
    Alert(
        name="DependencyHanging",
        expr="""
            min_over_time(service:supervisor_call_in_flight:sum[5m]) > 0
            and
              service:supervisor_calls:increase5m == 0
        """,
        hold="1m",
        severity=Severity.WARNING,
        summary="Calls to {{ $labels.service }} do not come back.",
        description=(
            '{{ $value | printf "%.0f" }} calls are in flight and not one has ended for 5 minutes.'
        ),
        board=Board.DEPENDENCIES,
        by=_SERVICE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor list --state RUNNING`, `supervisor autopsy capture ID`, "
                    "`supervisor autopsy show ID`: the socket it waits on, and since when."
                ),
                (
                    "The service hangs, or a firewall has forgotten the connection: restart there, "
                    'or end the tasks here: `supervisor cancel ID --reason "the call hangs"`.'
                ),
                "Give the client a time-out; without one a lost packet waits for ever.",
            ),
            means="Calls that have not ended are in no mean and in no error rate.",
            ignore="Calls that are meant to last more than 5 minutes.",
        ),
    ),
)

_BURN = Runbook(
    steps=(
        "Which type? The SLO dashboard lists them; TaskFailureRateHigh names it, too.",
        "Go on as there: `supervisor list --state FAILED --state TIMEOUT`, `supervisor show ID`.",
        "After a deploy: roll it back first, look later.",
    ),
    means=(
        "The objective is 99 % of attempts that end with success, over 30 days. Two windows must "
        "agree: the long one says that it matters, the short one that it goes on. 1h and 5m: 2 % "
        "of the month's budget are gone; 6h and 30m: 5 %; 1d and 2h: 10 %."
    ),
    ignore=(
        "A Prometheus that is younger than the window knows only what it has seen, and may "
        "fire all three at once."
    ),
)

#: (long window, short window, factor, hold, severity): 2 %, 5 % and 10 % of a month's budget.
_WINDOWS = (
    ("1h", "5m", "14.4", "2m", Severity.CRITICAL),
    ("6h", "30m", "6", "15m", Severity.CRITICAL),
    ("1d", "2h", "3", "1h", Severity.WARNING),
)


def _burn(long: str, short: str, factor: str, hold: str, severity: Severity) -> Alert:
    executed = 'supervisor_tasks_finished_total{outcome!~"canceled|requeued"}'
    return Alert(
        name="TaskSuccessBudgetBurn",
        expr=f"""
            job:supervisor_slo_errors:ratio_rate{long} > {factor} * <slo_error_budget>
            and
              job:supervisor_slo_errors:ratio_rate{short} > {factor} * <slo_error_budget>
            and
              sum by (job) (increase({executed}[{long}])) >= <least_attempts>
        """,
        hold=hold,
        severity=severity,
        summary="The month's budget of failed attempts is used up too fast.",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the attempts of the last {long} failed, "
            f"more than {factor} times what the objective allows."
        ),
        board=Board.SLO,
        autopsy="",
        labels=MappingProxyType({"window": long}),
        runbook=_BURN,
    )


SLO = tuple(_burn(*window) for window in _WINDOWS)
