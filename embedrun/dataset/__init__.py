"""Data sets: one file each; rows in one schema, from the local store, the user's own files or a generator.

`stsb` in a configuration is the class `Stsb` in `embedrun/dataset/stsb.py`, or in a package that the user
installed with an entry point of the group `embedrun.dataset`. A module without such a class is a part of
another data set.
"""
