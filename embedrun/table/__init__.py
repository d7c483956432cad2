"""The papers' tables and figures: every printed number, and the runs that measure it again."""

from embedrun.table.preset import Cell, Column, Figure, Row, Statistics, Table, load, names

__all__ = ["Cell", "Column", "Figure", "Row", "Statistics", "Table", "load", "names"]
