"""Find out why a Python process is stuck, from outside, within a time budget.

Secret: how evidence is taken from a process that may not answer. Stands alone: imports nothing of
`supervisor`. Inside the patient only `ring`, `memfd`, `signals` and `agent` are ever imported.
"""

VERSION = "0.1.0"
