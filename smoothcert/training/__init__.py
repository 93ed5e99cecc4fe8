"""Training of base classifiers: one loop, many objectives."""
