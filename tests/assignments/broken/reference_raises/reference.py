"""Raises while it is loaded."""

WIDTH = 0
INVERSE = 1 / WIDTH
