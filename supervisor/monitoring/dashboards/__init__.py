"""The dashboards as data, and the one renderer that makes Grafana's JSON of them.

Invariants: pure; a query names only metrics of the catalogue and records of the recording rules;
the line drawn in a panel is the number its alert compares with. Called by the command line, by
tools/generate_docs.py and by tests.
"""

from supervisor.monitoring.dashboards.all import dashboards, files

__all__ = ["dashboards", "files"]
