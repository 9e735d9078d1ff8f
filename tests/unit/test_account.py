"""What tasks use and say, added up: series from 0, names bounded, nothing made twice."""

from __future__ import annotations

import pytest
from between import looks_between
from prometheus_client.parser import text_string_to_metric_families

from supervisor.telemetry.account import LEARNED_MOST
from supervisor.telemetry.catalog import CATALOG
from supervisor.telemetry.catalog_task import (
    CALL_BUCKETS,
    MEMORY_BUCKETS,
    STEP_BUCKETS,
    of_business,
    of_resources,
)
from supervisor.telemetry.metrics import Metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
OWN = tuple(entry.full_name for entry in (*of_resources(), *of_business()))


def samples(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.render()[0].decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(OWN)
    }


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return samples(metrics).get((f"supervisor_{name}", tuple(sorted(labels.items()))))


def test_every_series_of_a_type_is_there_from_zero() -> None:
    metrics = Metrics(types=["export"])
    metrics.account.declare(
        "export",
        {"counts": ("rows",), "codes": ("404",), "steps": ("read",), "calls": ("payments",)},
    )
    found = samples(metrics)
    assert set(found.values()) == {0.0}
    plain = {(name, labels) for name, labels in found if not name.endswith("_bucket")}
    kind = ("type", "export")
    assert plain == {
        ("supervisor_task_cpu_seconds_total", (("mode", "user"), kind)),
        ("supervisor_task_cpu_seconds_total", (("mode", "system"), kind)),
        ("supervisor_task_io_bytes_total", (("direction", "read"), kind)),
        ("supervisor_task_io_bytes_total", (("direction", "written"), kind)),
        ("supervisor_task_network_bytes_total", (("direction", "received"), kind)),
        ("supervisor_task_network_bytes_total", (("direction", "sent"), kind)),
        ("supervisor_task_max_rss_bytes_count", (kind,)),
        ("supervisor_task_max_rss_bytes_sum", (kind,)),
        ("supervisor_task_open_fds", (kind,)),
        ("supervisor_task_counts_total", (("name", "rows"), kind)),
        ("supervisor_task_error_codes_total", (("code", "404"), kind)),
        ("supervisor_task_step_duration_seconds_count", (("step", "read"), kind)),
        ("supervisor_task_step_duration_seconds_sum", (("step", "read"), kind)),
        ("supervisor_call_duration_seconds_count", (("service", "payments"),)),
        ("supervisor_call_duration_seconds_sum", (("service", "payments"),)),
        ("supervisor_calls_total", (("outcome", "ok"), ("service", "payments"))),
        ("supervisor_calls_total", (("outcome", "error"), ("service", "payments"))),
        ("supervisor_call_in_flight", (("service", "payments"),)),
    }
    edges = len(MEMORY_BUCKETS) + len(STEP_BUCKETS) + len(CALL_BUCKETS) + 3
    assert len(found) - len(plain) == edges


def test_what_is_collected_is_what_the_catalogue_says() -> None:
    metrics = Metrics(types=["export"])
    metrics.account.declare("export", {"counts": ("n",), "codes": ("1",), "steps": ("s",),
                                       "calls": ("c",)})  # fmt: skip
    told = {family.name: family for family in metrics.account.collect()}
    entries = [entry for entry in CATALOG.values() if entry.full_name in OWN]
    assert len(entries) == len(told) == len(OWN) == 11
    for entry in entries:
        family = told[entry.full_name.removesuffix("_total")]
        assert (family.type, family.documentation) == (entry.kind, entry.help)
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == entry.labels.keys()
        assert entry.at_scrape


def test_spending_adds_up_and_never_goes_back() -> None:
    metrics = Metrics(types=["export"])
    metrics.account.spend("export", (1.5, 0.5, 100, 200, 300, 400))
    metrics.account.spend("export", (0.5, -1.0, 1, 0, 0, 0))
    assert value(metrics, "task_cpu_seconds_total", type="export", mode="user") == 2.0
    assert value(metrics, "task_cpu_seconds_total", type="export", mode="system") == 0.5
    assert value(metrics, "task_io_bytes_total", type="export", direction="read") == 101
    assert value(metrics, "task_io_bytes_total", type="export", direction="written") == 200
    assert value(metrics, "task_network_bytes_total", type="export", direction="received") == 300
    assert value(metrics, "task_network_bytes_total", type="export", direction="sent") == 400


def test_peaks_of_memory_are_a_histogram() -> None:
    metrics = Metrics(types=["export"])
    metrics.account.peak("export", 40 * 2**20, 3)
    metrics.account.peak("export", 100 * 2**30)
    mib = 2**20
    buckets = {
        dict(labels)["le"]: number
        for (name, labels), number in samples(metrics).items()
        if name == "supervisor_task_max_rss_bytes_bucket"
    }
    assert (buckets["3.3554432e+07"], buckets["6.7108864e+07"], buckets["+Inf"]) == (0, 3, 4)
    assert value(metrics, "task_max_rss_bytes_count", type="export") == 4
    assert value(metrics, "task_max_rss_bytes_sum", type="export") == 120 * mib + 100 * 2**30


def test_said_numbers_and_durations() -> None:
    metrics = Metrics(types=["export"])
    account = metrics.account
    account.count("counts", "export", "rows", 3)
    account.count("counts", "export", "rows", 0.5)
    account.count("codes", "export", "404", 2)
    account.time("steps", "export", "read", [0, 2, *[0] * (len(STEP_BUCKETS) - 1)], 0.15)
    account.time("calls", "export", "payments", [1, 1, *[0] * (len(CALL_BUCKETS) - 1)], 0.01, 1)
    account.fail_call("payments", 400.0)
    account.stand({"export": 12}, {"payments": 2})
    found = samples(metrics)
    kind = ("type", "export")
    read, payments = ("step", "read"), ("service", "payments")
    assert found["supervisor_task_counts_total", (("name", "rows"), kind)] == 3.5
    assert found["supervisor_task_error_codes_total", (("code", "404"), kind)] == 2
    step = "supervisor_task_step_duration_seconds"
    assert found[f"{step}_bucket", (("le", "0.05"), read, kind)] == 0
    assert found[f"{step}_bucket", (("le", "0.1"), read, kind)] == 2
    assert found[f"{step}_bucket", (("le", "+Inf"), read, kind)] == 2
    assert found[f"{step}_sum", (read, kind)] == 0.15
    call = "supervisor_call_duration_seconds"
    assert found[f"{call}_bucket", (("le", "300.0"), payments)] == 2
    assert found[f"{call}_bucket", (("le", "+Inf"), payments)] == 3
    assert found[f"{call}_sum", (payments,)] == 400.01
    assert found["supervisor_calls_total", (("outcome", "ok"), payments)] == 1
    assert found["supervisor_calls_total", (("outcome", "error"), payments)] == 2
    assert found["supervisor_call_in_flight", (payments,)] == 2
    assert found["supervisor_task_open_fds", (kind,)] == 12
    account.stand({}, {})
    found = samples(metrics)
    assert found["supervisor_call_in_flight", (payments,)] == 0
    assert found["supervisor_task_open_fds", (kind,)] == 0


def test_names_are_learned_up_to_a_limit_for_each_type_and_then_share_one() -> None:
    metrics = Metrics(types=["one", "two"])
    metrics.account.declare("one", {"counts": ("declared",)})
    for kind in ("one", "two"):
        for number in range(LEARNED_MOST + 5):
            metrics.account.count("counts", kind, f"n{number}", 1)
            metrics.account.count("counts", kind, f"n{number}", 1)
    metrics.account.count("counts", "one", "declared", 7)
    names = {
        kind: [dict(labels)["name"] for name, labels in samples(metrics)
               if name == "supervisor_task_counts_total" and ("type", kind) in labels]
        for kind in ("one", "two")
    }  # fmt: skip
    learned = [f"n{number}" for number in range(LEARNED_MOST)]
    assert names == {"one": ["declared", *learned, "_other"], "two": [*learned, "_other"]}
    assert value(metrics, "task_counts_total", type="one", name="_other") == 10
    assert value(metrics, "task_counts_total", type="one", name="declared") == 7
    text = metrics.render()[0].decode()
    assert 'supervisor_label_values_dropped_total{label="name"} 20.0' in text


def test_services_are_the_same_for_all_types_and_in_flight_ones_are_bounded_too() -> None:
    metrics = Metrics(types=["one", "two"])
    zeros = [0] * (len(CALL_BUCKETS) + 1)
    metrics.account.time("calls", "one", "payments", [1, *zeros[1:]], 0.001)
    metrics.account.time("calls", "two", "payments", [1, *zeros[1:]], 0.001)
    flying = {f"s{number:02}": 1 for number in range(2 * LEARNED_MOST)}
    metrics.account.stand({}, flying)
    assert value(metrics, "calls_total", service="payments", outcome="ok") == 2
    assert value(metrics, "call_in_flight", service="s00") == 1
    assert value(metrics, "call_in_flight", service="_other") == LEARNED_MOST + 1
    for _ in range(5):
        metrics.account.stand({}, flying)
    services = {labels for name, labels in samples(metrics) if name == "supervisor_call_in_flight"}
    assert len(services) == LEARNED_MOST + 1


def test_a_call_that_stands_for_long_is_not_counted_as_folded_again_and_again() -> None:
    metrics = Metrics(types=["one"])
    flying = {f"s{number:02}": 1 for number in range(LEARNED_MOST + 1)}
    for _ in range(5):
        metrics.account.stand({}, flying)
    folded = 'supervisor_label_values_dropped_total{label="service"}'
    assert f"{folded} 0.0" in metrics.render()[0].decode()
    metrics.account.fail_call(f"s{LEARNED_MOST:02}", 1.0)
    assert f"{folded} 1.0" in metrics.render()[0].decode()


def test_no_counter_of_calls_ever_falls_however_a_scrape_meets_a_change() -> None:
    metrics = Metrics(types=["one"])
    account = metrics.account
    zeros = [0] * (len(CALL_BUCKETS) + 1)

    def calls() -> tuple[float, ...]:
        families = {family.name: family for family in account.collect()}
        return tuple(sample.value for sample in families["supervisor_calls"].samples)

    def change() -> None:
        account.time("calls", "one", "payments", [2, 1, *zeros[2:]], 0.01, 1)
        account.fail_call("payments", 400.0)
        account.time("calls", "one", "payments", [1, 0, *zeros[2:]], 0.01, 1)

    account.declare("one", {"calls": ("payments",)})
    seen = looks_between(change, calls, "telemetry/account.py")
    assert (seen[0], seen[-1]) == ((0, 0), (2, 3))
    for values in zip(*seen, strict=True):
        assert list(values) == sorted(values)


def test_series_of_a_full_app_stay_few() -> None:
    metrics = Metrics(types=[f"type{number}" for number in range(30)])
    assert len(samples(metrics)) <= 30 * 22


def test_buckets_that_are_not_ours_are_refused_whole() -> None:
    metrics = Metrics(types=["export"])
    with pytest.raises(ValueError, match="zip"):
        metrics.account.time("steps", "export", "read", [1, 2, 3], 9.0)
    assert value(metrics, "task_step_duration_seconds_sum", type="export", step="read") == 0
