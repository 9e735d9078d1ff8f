"""Unit tests of the rules as data, what runs them in promtool, and what breaks rules on purpose."""
