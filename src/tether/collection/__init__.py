"""Datasets made by D4RL's recipe: train online, keep snapshots and the replay, record what they do."""
