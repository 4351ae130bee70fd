"""Which results exist and are current; opening and following an index; status."""
