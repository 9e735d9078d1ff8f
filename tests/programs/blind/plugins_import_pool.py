"""DIAGNOSIS deadlock.in_process: a package's __init__ starts threads that import its own submodules
and waits for them: import lock against join.
"""

# ruff: noqa: SIM115

import os
import sys
import tempfile
import textwrap

from _stage import ready

root = tempfile.mkdtemp(prefix="files_")
pkg = os.path.join(root, "exporters")
os.mkdir(pkg)
open(os.path.join(pkg, "csv_out.py"), "w").write("NAME = 'csv'\n")
open(os.path.join(pkg, "__init__.py"), "w").write(
    textwrap.dedent("""
    import importlib, threading

    REGISTRY = {}

    def _load(name):
        from exporters import REGISTRY
        REGISTRY[name] = importlib.import_module("exporters." + name)

    _threads = [threading.Thread(target=_load, args=("csv_out",), name="load-csv")]
    for _t in _threads:
        _t.start()
    for _t in _threads:
        _t.join()
""")
)
sys.path.insert(0, root)
ready()
import exporters  # noqa: E402, F401
