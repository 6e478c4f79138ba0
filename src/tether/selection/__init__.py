"""What is known of policies without a simulator: measures on held-out episodes, a choice among runs, a verdict in words."""
