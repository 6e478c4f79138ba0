"""Gymnasium environments, as Tether sees them, and the tasks whose scores are known.

tasks.py    the paper's tasks: environments, horizons, reference returns (imports no Gymnasium)
scores.py   returns as normalised scores
making.py   an environment by its id, checked against what a dataset or a policy expects
vectors.py  choices as one-hot rows, images as flat rows
spaces.py   observations made of parts as vectors
"""
