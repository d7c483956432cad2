"""Evaluation tasks, one file each; a task sees only rows and an `encode` callable.

`heldout` in a configuration is the class `Heldout` in `embedrun/evaluation/heldout.py`, or in a package
that the user installed with an entry point of the group `embedrun.evaluation`.
"""
