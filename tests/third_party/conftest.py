"""The distribution beside this file has tests of its own, which run where it is installed."""

collect_ignore = ["slideseek-median"]
