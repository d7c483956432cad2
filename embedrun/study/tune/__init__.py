"""A search of options for the best dev score."""
