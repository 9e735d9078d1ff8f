"""Which workers live, which died and why, what is stuck."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
    Dashboard,
    Kind,
    Panel,
    Query,
    Row,
    Style,
    Unit,
)
from supervisor.monitoring.dashboards.promql import (
    growth,
    largest,
    own,
    quantile,
    rate,
    record,
    smallest,
    total,
)
from supervisor.monitoring.dashboards.styles import BY_PHASE, BY_STATE, WANTED
from supervisor.monitoring.threshold import Thresholds

TEN = "topk(10, {})"


def workers(alert: Thresholds) -> Dashboard:
    """Return the dashboard of worker processes and zombies."""
    return Dashboard(
        "workers",
        "Workers and zombies",
        "Which workers live, which died and why, what is stuck.",
        (
            Row("Life and death", (*_alive(alert), *_births(), *_deaths())),
            Row("Zombies", (*_zombies(alert), *_ends(alert))),
            Row("What workers use", _slots(alert)),
        ),
    )


def _alive(alert: Thresholds) -> tuple[Panel, ...]:
    alive = record("instance:supervisor_workers_alive_per_desired:ratio")
    return (
        Panel(
            Kind.LINES,
            "Workers by state",
            "Worker processes, against the number wanted.",
            Unit.SHORT,
            (
                Query(total(own("workers"), "state"), "{{state}}"),
                Query(total(own("workers_desired")), "wanted"),
            ),
            width=12,
            styles=(*BY_STATE, WANTED),
            stacked=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Alive",
            "Workers with a fresh heartbeat over those wanted, mean of 5 minutes. Below the line "
            "is WorkerSurvivalLow.",
            Unit.RATIO,
            (
                Query(smallest(f"avg_over_time({alive}[5m])", "instance"), "{{instance}}"),
                Query(limits.line(alert.survival), "alert"),
            ),
            width=12,
            styles=(Style("alert", Color.BAD, dashed=True),),
            minimum=0,
            maximum=1,
        ),
    )


def _births() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Born",
            "Workers spawned, by why.",
            Unit.SHORT,
            (Query(growth("worker_spawns_total", "reason"), "{{reason}}"),),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Ended",
            "Workers reaped, by why they ended.",
            Unit.SHORT,
            (Query(growth("worker_exits_total", "reason"), "{{reason}}"),),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Time of a birth",
            "From the fork to the worker's hello.",
            Unit.SECONDS,
            (
                Query(quantile(0.5, "worker_spawn_duration_seconds"), "p50"),
                Query(quantile(0.95, "worker_spawn_duration_seconds"), "p95"),
            ),
            with_points=True,
            minimum=0,
        ),
    )


def _deaths() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Births that failed, crashes",
            "Workers that died before their hello, and attempts whose worker died under them.",
            Unit.SHORT,
            (
                Query(growth("worker_spawn_failures_total"), "birth failed"),
                Query(growth("crashes_total", "reason"), "{{reason}}"),
            ),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Held back",
            "Types that wait because they ended too many workers, pools that wait for a person, "
            "children not yet reaped.",
            Unit.SHORT,
            (
                Query(total(own("types_held")), "types held"),
                Query(total(own("restart_halted")), "pools halted"),
                Query(total(own("unreaped")), "unreaped"),
            ),
            styles=(Style("pools halted", Color.BAD), Style("types held", Color.WARN)),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Left behind",
            "What attempts left open or running: descriptors and threads that grew, children and "
            "files that were cleared.",
            Unit.SHORT,
            (Query(growth("left_behind_total", "kind"), "{{kind}}"),),
            as_bars=True,
            stacked=True,
        ),
    )


def _zombies(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Zombies",
            "RUNNING attempts that are dead by their work, by kind. Any at all is an alert.",
            Unit.SHORT,
            (Query(total(record("kind:supervisor_zombies:now"), "kind"), "{{kind}}"),),
            stacked=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Share of what runs",
            "Zombies over running tasks. Above the line is ZombieShareHigh.",
            Unit.RATIO,
            (Query(largest(record("job:supervisor_zombies_per_running:ratio")), "share"),),
            styles=(Style("share", Color.LATE),),
            limits=limits.at(alert.zombie_share),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Found",
            "Zombies found in each interval; a short one ends between two scrapes and shows here "
            "only.",
            Unit.SHORT,
            (Query(growth("zombies_detected_total", "kind"), "{{kind}}"),),
            as_bars=True,
            stacked=True,
        ),
    )


def _ends(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Kills by verdict",
            "Workers killed with their tree, and why.",
            Unit.SHORT,
            (Query(growth("kills_total", "verdict"), "{{verdict}}"),),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Stops by phase",
            "How far a stop had to go until the attempt was gone.",
            Unit.SHORT,
            (Query(growth("stops_total", "phase"), "{{phase}}"),),
            styles=BY_PHASE,
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Age of heartbeats",
            "The ten workers silent for longest. At the line a worker is judged heartbeat_lost.",
            Unit.SECONDS,
            (
                Query(
                    TEN.format(largest(own("worker_heartbeat_age_seconds"), "instance", "slot")),
                    "{{instance}} slot {{slot}}",
                ),
            ),
            limits=limits.at(alert.heartbeat_s),
            minimum=0,
        ),
    )


def _slots(alert: Thresholds) -> tuple[Panel, ...]:
    legend = "{{instance}} slot {{slot}}"
    return (
        Panel(
            Kind.LINES,
            "Processor",
            "Cores; the ten busiest workers. A whole core for 10 minutes is WorkerCpuPegged.",
            Unit.SHORT,
            (
                Query(
                    TEN.format(rate("worker_cpu_seconds_total", "instance", "slot")),
                    legend,
                ),
            ),
            limits=limits.at(limits.ONE_CORE),
            decimals=2,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Memory",
            "Resident memory; the ten largest workers.",
            Unit.BYTES,
            (
                Query(
                    TEN.format(largest(own("worker_resident_memory_bytes"), "instance", "slot")),
                    legend,
                ),
            ),
            limits=limits.at(alert.worker_memory_bytes),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Open files",
            "Descriptors; the ten workers that hold most.",
            Unit.SHORT,
            (Query(TEN.format(largest(own("worker_open_fds"), "instance", "slot")), legend),),
            limits=limits.at(alert.worker_fds),
            minimum=0,
        ),
    )
