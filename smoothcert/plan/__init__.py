"""What a certification will cost, before any draw is spent: by scheme, and for inputs like those of a finished run."""
