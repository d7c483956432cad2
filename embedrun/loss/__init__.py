"""Objectives: one term a file, pure functions of embeddings and targets; `mix` sums weighted terms."""
