"""Tests of the alerts about worker processes."""

from __future__ import annotations

from rules.case import Case, Series, fires, series, silent


def exits(reason: str, values: str, **more: str) -> Series:
    """Return a counter of ends of workers."""
    return series("worker_exits_total", values, reason=reason, **more)


def limit(values: str, kind: str, **more: str) -> Series:
    """Return what tasks of a type may use of memory; 0 is no limit."""
    return series("task_memory_limit_bytes", values, type=kind, **more)


POOL = (
    Case(
        "one of eight is missing for minutes",
        [
            series("workers_alive", "8x10 7x20"),
            series("workers_desired", "8x30"),
            series("workers_alive", "8x30", instance="b"),
            series("workers_desired", "8x30", instance="b"),
            series("stopping", "0x30"),
        ],
        [
            silent("WorkerSurvivalLow", "10m", "11m"),
            fires("WorkerSurvivalLow", "13m", "17m", instance="a"),
        ],
    ),
    Case(
        "one of eight is replaced within 15 s",
        [series("workers_alive", "8x40 7 8x40"), series("workers_desired", "8x81")],
        [silent("WorkerSurvivalLow", "10m15s", "11m", "12m")],
        "15s",
    ),
    Case(
        "one of sixty is missing: 98.3 % survive",
        [series("workers_alive", "60x10 59x20"), series("workers_desired", "60x30")],
        [silent("WorkerSurvivalLow", "25m")],
    ),
    Case(
        "a node without workers, as it is set",
        [series("workers_alive", "8x10 0x20"), series("workers_desired", "8x10 0x20")],
        [silent("WorkerSurvivalLow", "25m")],
    ),
    Case(
        "a node that stops leads its workers out",
        [
            series("workers_alive", "8x10 2x20"),
            series("workers_desired", "8x30"),
            series("stopping", "0x10 1x20"),
        ],
        [silent("WorkerSurvivalLow", "13m", "20m")],
    ),
    Case(
        "workers crash again and again",
        [
            exits("crashed", "0x5 0+1x30"),
            exits("boot_failed", "0x5 0+1x30"),
            exits("recycled", "0+50x35"),
            exits("crashed", "0+0.5x35", instance="b"),
        ],
        [
            silent("WorkerCrashLoop", "7m", "8m", "9m"),
            fires("WorkerCrashLoop", "13m", "30m", instance="a"),
        ],
    ),
    Case(
        "four crashes in five minutes, and none after: silent",
        [exits("crashed", "0x5 1 2 3 4x30"), exits("crashed", "0x5 1 2 3 4x30", instance="b")],
        [silent("WorkerCrashLoop", "9m", "12m")],
    ),
    Case(
        "eight crashes in a minute: over after five",
        [exits("crashed", "0x5 8x40")],
        [fires("WorkerCrashLoop", "8m", instance="a"), silent("WorkerCrashLoop", "14m")],
    ),
    Case(
        "recycled, stopped and killed workers are no crash loop",
        [exits("recycled", "0+50x35"), exits("stopped", "0+9x35"), exits("killed", "0+9x35")],
        [silent("WorkerCrashLoop", "20m")],
    ),
    Case(
        "births are halted, with a try now and then",
        [series("restart_halted", "0x5 1 1 0 1 1 0 1 1 1 0 1 1 0x20")],
        [
            silent("PoolHalted", "6m", "7m"),
            fires("PoolHalted", "9m", "15m", instance="a"),
            silent("PoolHalted", "25m"),
        ],
    ),
    Case(
        "births are halted for two seconds: silent",
        [series("restart_halted", "0x5 1 0x20")],
        [silent("PoolHalted", "6m", "7m", "9m", "10m")],
    ),
    Case(
        "a type is held back, with a try now and then",
        [series("types_held", "0x5 1 1 1 0 1 1 0 2 2 0x20")],
        [
            silent("TypeHeld", "6m"),
            fires("TypeHeld", "8m", "14m", instance="a"),
            silent("TypeHeld", "25m"),
        ],
    ),
    Case(
        "births fail",
        [
            series("worker_spawn_failures_total", "0x5 1 2 3x30"),
            series("worker_spawn_failures_total", "0x5 2x30", instance="b"),
        ],
        [
            silent("WorkerSpawnFailing", "6m"),
            fires("WorkerSpawnFailing", "9m", "12m", instance="a"),
            silent("WorkerSpawnFailing", "22m"),
        ],
    ),
    Case(
        "all are busy on both nodes and tasks wait: fires after a quarter of an hour",
        [
            series("workers", "8x60", state="busy"),
            series("workers", "0x60", state="idle"),
            series("workers_desired", "8x60"),
            series("workers", "8x60", instance="b", state="busy"),
            series("workers_desired", "8x60", instance="b"),
            series("in_queue", "0x5 3x60", queue="q", type="export"),
        ],
        [silent("WorkersSaturated", "18m"), fires("WorkersSaturated", "22m", "40m")],
    ),
    Case(
        "all are busy and nothing waits: good use",
        [
            series("workers", "8x60", state="busy"),
            series("workers_desired", "8x60"),
            series("in_queue", "0x60", queue="q", type="export"),
        ],
        [silent("WorkersSaturated", "30m")],
    ),
    Case(
        "one node of two is idle: silent",
        [
            series("workers", "8x60", state="busy"),
            series("workers_desired", "8x60"),
            series("workers", "0x60", instance="b", state="busy"),
            series("workers_desired", "8x60", instance="b"),
            series("in_queue", "3x60", queue="q", type="export"),
        ],
        [silent("WorkersSaturated", "30m")],
    ),
    Case(
        "one of eight is idle: silent",
        [
            series("workers", "7x60", state="busy"),
            series("workers", "1x60", state="idle"),
            series("workers_desired", "8x60"),
            series("in_queue", "3x60", queue="q", type="export"),
        ],
        [silent("WorkersSaturated", "30m")],
    ),
)

SLOTS = (
    Case(
        "a worker burns a core for ten minutes",
        [
            series("worker_cpu_seconds_total", "0x5 0+60x40", slot="3"),
            series("worker_cpu_seconds_total", "0+50x45", slot="4"),
        ],
        [
            silent("WorkerCpuPegged", "14m", "19m"),
            fires("WorkerCpuPegged", "23m", "35m", instance="a", slot="3"),
        ],
    ),
    Case(
        "full for four minutes, then idle: silent",
        [series("worker_cpu_seconds_total", "0x5 0+60x4 240x40", slot="3")],
        [silent("WorkerCpuPegged", "9m", "12m", "20m")],
    ),
    Case(
        "it takes a rest each half hour: the ten minutes begin anew",
        [series("worker_cpu_seconds_total", "0+60x8 480x2 500+60x8 980x2 1000+60x8", slot="3")],
        [silent("WorkerCpuPegged", "10m", "20m", "28m")],
    ),
    Case(
        "3 GiB for five minutes",
        [
            series("worker_resident_memory_bytes", "1e9x5 3.2e9x20", slot="3"),
            series("worker_resident_memory_bytes", "1.5e9x25", slot="4"),
        ],
        [
            silent("WorkerMemoryHigh", "6m", "10m"),
            fires("WorkerMemoryHigh", "12m", "20m", instance="a", slot="3"),
        ],
    ),
    Case(
        "3 GiB on a node that has a type which may use 4 GiB: silent; on another it is told",
        [
            series("worker_resident_memory_bytes", "3.2e9x25", slot="3"),
            series("worker_resident_memory_bytes", "3.2e9x25", slot="0", instance="b"),
            limit("4.3e9x25", "render"),
            limit("0x25", "resize"),
            limit("1.5e9x25", "resize", instance="b"),
            limit("1.5e9x25", "render", instance="b"),
        ],
        [
            silent("WorkerMemoryHigh", "4m"),
            fires("WorkerMemoryHigh", "8m", "20m", instance="b", slot="0"),
        ],
    ),
    Case(
        "a task above nine tenths of what its type may use, on one node of two",
        [
            series("running_memory_bytes", "2.5e8x5 4.7e8x15 2.5e8x10", type="resize"),
            series("running_memory_bytes", "2.5e8x30", instance="b", type="resize"),
            series("running_memory_bytes", "4.7e8x30", type="render"),
            *(limit("5e8x30", "resize", instance=one) for one in ("a", "b")),
            *(limit("4e9x30", "render", instance=one) for one in ("a", "b")),
        ],
        [
            silent("TaskMemoryHigh", "5m", "7m"),
            fires("TaskMemoryHigh", "9m", "19m", type="resize"),
            silent("TaskMemoryHigh", "24m"),
        ],
    ),
    Case(
        "much memory for less than two minutes, or of a type without a limit: silent",
        [
            series("running_memory_bytes", "1e8x5 4.9e8x1 1e8x20", type="resize"),
            series("running_memory_bytes", "9e9x27", type="render"),
            limit("5e8x27", "resize"),
            limit("0x27", "render"),
        ],
        [silent("TaskMemoryHigh", "6m", "7m", "8m", "15m")],
    ),
    Case(
        "900 descriptors for two minutes",
        [
            series("worker_open_fds", "50x5 900x20", slot="3"),
            series("worker_open_fds", "500x25", slot="4"),
        ],
        [
            silent("WorkerFdsHigh", "6m", "7m"),
            fires("WorkerFdsHigh", "9m", "20m", instance="a", slot="3"),
        ],
    ),
    Case(
        "descriptors stay open, on two nodes",
        [
            series("left_behind_total", "0+0.5x90", kind="fd"),
            series("left_behind_total", "0+0.5x90", instance="b", kind="fd"),
            series("left_behind_total", "0+0.4x90", kind="thread"),
        ],
        [silent("AttemptsLeaveRemains", "20m"), fires("AttemptsLeaveRemains", "80m", kind="fd")],
    ),
    Case(
        "80 left within minutes: told for an hour",
        [series("left_behind_total", "0x5 80x90", kind="file")],
        [
            fires("AttemptsLeaveRemains", "10m", "60m", kind="file"),
            silent("AttemptsLeaveRemains", "70m"),
        ],
    ),
)

CASES = (*POOL, *SLOTS)
