"""Experiments of the paper and of our own: each is one command that leaves numbers and pictures."""
