"""⑤ Carries out draws: many procedures at once, packed into full batches."""
