"""The runs of a paper's table."""
