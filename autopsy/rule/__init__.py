"""The rules of `autopsy.diagnose`, one module for each kind of cause; pure, called by it alone."""
