"""⑥ A run on disk: written as it goes, resumed, verified, exchanged."""
