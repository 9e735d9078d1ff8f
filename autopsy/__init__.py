"""Find out why a Python process is stuck, from outside, within a time budget.

Secret: how evidence is taken from a process that may not answer. Stands alone: imports nothing of
`supervisor`. Inside the patient only `agent`, `sampler`, the two rings, `memfd` and `signals` are
ever imported, and what little they need.
"""

VERSION = "0.1.0"
