"""Pairs that language models write (AnglE Section 4.5)."""
