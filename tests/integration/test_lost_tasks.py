"""A task of a node that was SIGKILLed is lost on every surface at once, also on a file."""

from __future__ import annotations

import json

from harness import Start, eventually
from pages import pages


def test_a_task_of_a_killed_node_is_lost_everywhere(start_node: Start) -> None:
    node = start_node(workers=2)
    node.started(node.submit("sleep"))
    node.kill()
    assert node.cli_json("top")["numbers"]["zombies_lost"] == 1
    with pages(node.root) as site:
        client = site.browser(Authorization=f"Bearer {site.add_token('tester')}")

        def lost() -> int:
            number: int = json.loads(client.get("/api/v1/numbers").body)["lost"]
            return number

        assert lost() == 1
        zombies = site.opened().get("/").text.split("Zombies", 1)[1]
        assert '<p class="value">1</p>' in zombies.split("</div>", 1)[0]
        node.restart()  # its successor writes down how the node and the task ended
        eventually(lambda: lost() == 0, 10, "nothing is lost any more")
