"""Pairs of GitHub issues: ask the platform, find what was closed as a duplicate, draw, split, write.

`cache` keeps every answer, `limits` says how long to wait, `transport` asks, `api` knows pages; `duplicates`
reads comments, `repository` one repository; `groups` and `pairs` make and split the pairs, `output` writes
them.
"""
