"""A certified prediction service: Open Inference Protocol v2 in, labels with radii and their evidence out."""
