"""`python -m supervisor.cli` is the same as `supervisor`."""

from supervisor.cli import main

if __name__ == "__main__":
    main()
