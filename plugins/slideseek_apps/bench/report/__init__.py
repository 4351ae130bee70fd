"""The benchmark's report: tables and figures from a folder of results, in every format."""
