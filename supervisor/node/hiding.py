"""What an attempt may not tell of its params: removed from its ending before that is written.

Invariant: where a type marks params as secret, no error, traceback or output that the store keeps
holds their values. A result is the task's own word and stays as it is; surfaces hide it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from autopsy.secret import Secrets, in_params
from supervisor.model.outcome import Outcome


def without_secrets(
    outcome: Outcome, output: str | None, params_json: str, marked: Iterable[str]
) -> tuple[Outcome, str | None]:
    """Return an ending and its output without the values of the marked params."""
    secrets = Secrets(in_params(json.loads(params_json), marked))

    def clean(text: str | None) -> str | None:
        return text and secrets.text(text)

    told = {name: clean(getattr(outcome, name)) for name in ("error", "traceback", "detail")}
    return msgspec.structs.replace(outcome, **told), clean(output)
