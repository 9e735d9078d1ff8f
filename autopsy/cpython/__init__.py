"""Reading a CPython 3.11 process from outside, by its memory alone.

Secret: the layout of that one version. Invariants: nothing is installed in the patient, stopped or
run there; every pointer is doubted, so that a process that runs while it is read gives less, never
an exception or a loop. Told to the outside: `interpreter.open_interpreter`, the `collect` of each
section's module, and `inventory.main` for the heap.
"""
