"""③ How many draws, and what they prove: one file for each scheme."""
