"""Teacher similarities of labelled pairs (RAOE)."""
