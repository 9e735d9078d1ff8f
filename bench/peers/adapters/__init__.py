"""One module for each queue: its app with the bodies registered, and `connect()`.

Imported by the producer and by the queue's own workers, so everything comes from the environment.
"""
