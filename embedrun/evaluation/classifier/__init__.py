"""Logistic regression on sentence vectors, as SentEval trains and validates it: many fits at once."""
