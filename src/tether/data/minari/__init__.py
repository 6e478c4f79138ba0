"""Minari's datasets, through its own library: reading.py and exporting.py."""
