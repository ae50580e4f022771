"""What passes are made of, and how several run in order."""
