"""A slideseek plugin: the command `cohort` and the kind of data `bag-jsonl`."""
