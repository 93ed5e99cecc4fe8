"""Training losses: one file each."""
