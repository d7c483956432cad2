"""Run directories: made, read, listed, found."""
