"""Our figures against their budgets, measured on real processes; `python -m bench` runs them."""
