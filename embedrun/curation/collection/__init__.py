"""Duplicate issues of GitHub repositories as pairs (AnglE)."""
