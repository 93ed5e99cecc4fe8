"""Networks by name: shape and number of classes → module."""
