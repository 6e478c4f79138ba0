"""Your own logs: Parquet, CSV and NPZ tables as a file in the D4RL layout.

files.py      the tables as they are, one after the other
dialect.py    how a CSV file is written: encoding, delimiter, comments, header
separated.py  its rows as text
marks.py      numbers in text: decimal marks and marks of thousands
dates.py      times in text: orders of day and month, zones, the hour that comes twice
places.py     where something stands, for messages
roles.py      which column is what
values.py     columns as numbers, flags, choices, labels and times, checked
actions.py    what the action columns mean: bounds, or choices
reading.py    all files as one log
episodes.py   rows in order; duplicates, gaps, incomplete rows; where episodes end
importing.py  all of it, and what was found on the way
"""
