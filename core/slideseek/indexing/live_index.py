"""An index that follows its archive: opened once, and again when the catalogue has changed since."""

from __future__ import annotations

from slideseek.archive.archive import Archive
from slideseek.archive.columns import SlideColumns
from slideseek.engine import Engine
from slideseek.indexing.index_store import open_index
from slideseek.indexing.stage_results import Ledger
from slideseek.interfaces import Index


class LiveIndex:
    """An engine's index, the columns of its slides, and what a person should know about it.

    notes: of the index as it is open now. slides: how many the archive had then.
    """

    index: Index
    columns: SlideColumns

    def __init__(self, archive: Archive, engine: Engine, ledger: Ledger) -> None:
        self._archive = archive
        self._engine = engine
        self._ledger = ledger
        self._codes: tuple[str, int] | None = None
        self._records = -1
        self.notes: tuple[str, ...] = ()
        self.slides = 0
        self.refresh()

    def refresh(self) -> bool:
        """Follow the catalogue if it has changed, at the price of two questions if it has not; say whether it had."""
        catalog = self._archive.catalog
        with catalog.snapshot():
            name = self._ledger.settings(self._engine, "encode")
            codes = name, catalog.changes.generation(name)
            records = catalog.changes.of_records()
            if (codes, records) == (self._codes, self._records):
                return False
            if codes != self._codes:
                opened = open_index(self._archive, self._engine, self._ledger)
                self.index, self.notes = opened.index, opened.notes
            self.columns = SlideColumns(catalog.slides, self.index.ids)
            self.slides = len(catalog.slides)
            self._codes, self._records = codes, records
        return True
