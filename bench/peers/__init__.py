"""Other task queues beside ours, measured in one run; `python -m bench.peers` does it.

The command runs in our environment. `producer`, `adapters`, `bodies` and `paths` run in those of
the peers as well, and so import nothing but the standard library and the peer.
"""
