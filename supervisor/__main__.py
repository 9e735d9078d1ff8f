"""`python -m supervisor`: the same as the `supervisor` command."""

from supervisor.cli import main

if __name__ == "__main__":
    main()
