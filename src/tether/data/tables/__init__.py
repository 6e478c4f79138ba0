"""Your own logs: Parquet, CSV and NPZ tables as a file in the D4RL layout.

files.py      the tables as they are, one after the other
roles.py      which column is what
values.py     columns as numbers, flags, choices, labels and times, checked
actions.py    what the action columns mean: bounds, or choices
episodes.py   rows in order; duplicates, gaps, incomplete rows; where episodes end
importing.py  all of it, and what was found on the way
"""
