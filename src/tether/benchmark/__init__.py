"""How fast training is, as a share of what this machine's matrix product can do at most."""
