"""Commands that make data sets: annotate, generate, collect."""
