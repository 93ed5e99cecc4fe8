"""What an input needs before its draws."""
