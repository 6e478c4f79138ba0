"""D4RL's datasets by name: catalogue.py knows all and where each is kept, download.py fetches them."""
