"""`python -m embedrun`, the same as the `embedrun` command."""

from embedrun.cli import entry

entry()
