"""④ The papers' algorithms, each for one input, as generators that ask for draws and receive counts."""
