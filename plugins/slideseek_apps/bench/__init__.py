"""The benchmark: compare engines on a dataset, and score the ranked lists of any system."""
