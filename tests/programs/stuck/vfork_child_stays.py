"""DIAGNOSIS uninterruptible: the child of a vfork neither execs nor ends; the parent stays in D."""

from _stage import native_without_gil, ready

library = native_without_gil()
ready()
library.vfork_and_wait()
