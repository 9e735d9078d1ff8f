"""What an attempt may not tell of its params: removed from its ending before that is written.

Invariant: no error, traceback or output that this node writes holds the values of params that their
type marks as secret, or whose names say so (values of a few characters excepted: they stand in any
text). A result is the task's own word and stays as it is; surfaces hide it. The scribe calls it:
long output takes tens of milliseconds, which the loop does not have.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from autopsy.secret import Secrets, in_params
from supervisor.model.record import Ending


def without_secrets(ending: Ending) -> Ending:
    """Return an ending whose words are without the values of the secret params that it names."""
    if ending.params_json == "{}":
        return ending
    values = list(in_params(json.loads(ending.params_json), ending.marked))
    if not values:
        return replace(ending, params_json="{}")
    secrets, outcome = Secrets(values), ending.outcome

    def clean(text: str | None) -> str | None:
        return text and secrets.text(text)

    told = {name: clean(getattr(outcome, name)) for name in ("error", "traceback", "detail")}
    return replace(
        ending,
        outcome=replace(outcome, **told),
        log_tail=clean(ending.log_tail),
        params_json="{}",
    )
