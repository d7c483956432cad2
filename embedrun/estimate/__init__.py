"""Estimates of what a run costs, before it starts."""
