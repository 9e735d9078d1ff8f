"""The collectors: each looks at one side of a patient from outside and returns plain JSON data.

Secret: how kernel, py-spy and servers are asked. Invariants: a collector may hang or fail, the
runner bears it; never stat an open file of the patient (a dead file system makes that unkillable);
only this package signals or starts processes.
"""
