"""Faults on purpose: what an archive survives, with figures. `make reliability`, or `python -m reliability ROW`.

One module per row of the table; `rows` lists them. Each module holds one `Row`: its bar, and a function that yields
figures. The suite runs all rows in their short form (`tests/reliability/test_rows.py`).

- `rows`: the list of rows. `row`: what a row and a figure are. `table`: keeps the figures and writes the page.
- `trial`: runs one trial in a forked child and says how it ended. `toy_archive`: what most trials are about.
"""
