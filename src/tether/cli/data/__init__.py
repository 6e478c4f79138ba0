"""`tether data`: one file per subcommand."""
