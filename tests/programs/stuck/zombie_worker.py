"""DIAGNOSIS zombie.process: it has ended with code 9 and its parent has not taken notice."""

import os

from _stage import ready

ready()
os._exit(9)
