"""Hyperparameter search for the best dev score."""
