"""One run, from plan to results."""
