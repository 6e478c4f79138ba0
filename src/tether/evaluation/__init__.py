"""Policies in the real environment: episodes, scores, statistics, pictures."""
