"""What each alert says when it fires: read from promtool once, and compared ever after.

`PYTHONPATH=tests python -m rules.snapshot` writes alerts/tests/annotations.test.yml anew: look at
what changed in it. One firing check of each alert is taken, with the rules as they are exported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rules import files, promtool
from rules.case import Case, Check, document
from rules.incidents import INCIDENTS, lead_checks
from supervisor.monitoring import export
from supervisor.monitoring.rule import to_yaml

FOLDER = Path(__file__).parents[2] / "alerts" / "tests"
NAME = "annotations.test.yml"
NOTICE = "# Written by `python -m rules.snapshot` (tests/rules): look at what changed.\n"
_ANNOTATIONS = re.compile(r"Annotations:\{(.*)\},?\s*$", re.MULTILINE)


def first_checks() -> Iterator[Case]:
    """Yield for each alert the first case in which it fires, with one check of it."""
    seen: set[tuple[str, str]] = set()
    cases = [case for some, _ in files.CASES.values() for case in some]
    for case in (*cases, *(lead_checks(one) for one in INCIDENTS)):
        chosen: dict[tuple[str, str], Check] = {}
        for check in case.all_checks:  # the last one of a case: it fires for sure by then
            windows = {one.get("window", "") for one in check.firing}
            chosen |= {
                (check.alert, one): check for one in windows if (check.alert, one) not in seen
            }
        if chosen:
            seen |= set(chosen)
            yield replace(
                case,
                checks=[
                    one
                    for at, one in enumerate(chosen.values())
                    if one not in list(chosen.values())[:at]
                ],
                values=(),
            )


def content() -> dict[str, Any]:
    """Return the test file, with what promtool says filled in."""
    paths = [f"../{name}" for name in export.RULE_FILES]
    test = document(list(first_checks()), paths, [g.name for g in files.all_groups()], "1m")
    empty = document(
        [
            replace(case, checks=[Check(check.at, check.alert) for check in case.all_checks])
            for case in first_checks()
        ],
        paths,
        [group.name for group in files.all_groups()],
        "1m",
    )
    FOLDER.joinpath(NAME).write_text(to_yaml(empty, NOTICE), "utf-8")
    _, output = promtool.run_file(FOLDER / NAME)
    said = {(one.alert, one.time): one.got for one in promtool.failures(output)}
    for one in test["tests"]:
        for check in one["alert_rule_test"]:
            got = next(
                text
                for (alert, time), text in said.items()
                if alert == check["alertname"]
                and promtool.seconds(time) == promtool.seconds(check["eval_time"])
            )
            check["exp_alerts"] = list(_alerts(got))
    return test


def _alerts(got: str) -> Iterator[dict[str, Any]]:
    for labels, said in zip(
        re.findall(r"Labels:\{(.*)\}\s*$", got, re.MULTILINE),
        _ANNOTATIONS.findall(got),
        strict=True,
    ):
        named = _pairs(labels)
        del named["alertname"]
        yield {"exp_labels": named, "exp_annotations": _pairs(said)}


def _pairs(text: str) -> dict[str, str]:
    return {
        name: value.encode().decode("unicode_escape").encode("latin-1").decode()
        if "\\" in value
        else value
        for name, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text)
    }


if __name__ == "__main__":
    (FOLDER / NAME).write_text(to_yaml(content(), NOTICE), "utf-8")
    sys.exit(0)
