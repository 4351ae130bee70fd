"""The Python interface: open an archive, build it, search it. Start with `slideseek.open`.

    import slideseek

    with slideseek.open("my-archive") as archive:
        archive.build()
        for found in archive.search("S-001", k=5):
            print(found.rank, found.record.id, found.hit.distance)

The command line uses the same calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from slideseek.archive.archive import Archive
from slideseek.config import CONFIG_NAME, default_config, parse_config
from slideseek.errors import ParameterError
from slideseek.plugins import Registry, load_registry
from slideseek.searching.query_log import log_result
from slideseek.searching.request import QueryKind, Request, Result
from slideseek.searching.searcher import Mode, Searcher

if TYPE_CHECKING:
    from slideseek.building.build import BuildOptions
    from slideseek.building.reporting import BuildSummary, Reporter
    from slideseek.searching.evidence import Evidence


HOW_TO_GIVE = {
    "site": "pass site=...",
    "patient": "pass patient=...",
    "center": "pass center=...",
    "options": "pass options={NAME: VALUE}",
}
"""How the parameters of a search are given in Python, for errors about them."""


class OpenArchive:
    """An open archive: engines are opened on first use, and follow the archive from then on.

    Close it, or use it as a context manager.
    """

    def __init__(self, archive: Archive, registry: Registry | None = None) -> None:
        self.archive = archive
        self._registry = registry
        self._searchers: dict[str, Searcher] = {}

    @property
    def registry(self) -> Registry:
        """The components that plugins provide, looked up on first use."""
        if self._registry is None:
            self._registry = self.archive.registry()
        return self._registry

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the configured engines; the first is the default one."""
        return tuple(engine.name for engine in self.archive.config.engines)

    @property
    def slides(self) -> list[str]:
        """Ids of the archive's slides, sorted."""
        return self.archive.catalog.slides.ids()

    def searcher(self, engine: str | None = None) -> Searcher:
        """Return the searcher of an engine; by default the first one configured."""
        name = self.archive.config.engine(engine).name
        if name not in self._searchers:
            self._searchers[name] = Searcher.open(self.archive, name, self.registry)
        return self._searchers[name]

    def forget(self) -> None:
        """Close all open engines; the next search reads the configuration and the models again."""
        self._searchers.clear()

    def search(
        self,
        query: str | Path,
        *,
        k: int = 5,
        engine: str | None = None,
        mode: Mode = "horizontal",
        where: str | Sequence[str] = (),
        kind: QueryKind | None = None,
        region: str = "",
        annotation: str = "",
        site: str = "",
        patient: str = "",
        center: str = "",
        mpp: float | None = None,
        include_same_patient: bool = False,
        exclude_center: bool = False,
        any_stain: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Result:
        """Find the k slides most similar to `query`: the id of a slide of the archive, or a slide file.

        mode: "vertical" searches only slides of the query's site. where: conditions such as "age>=60", all of which
        must hold. kind: "patch" for a patch image, "case" for a patient, "text" for words; a region makes it "region".
        site, patient, center, mpp: what is known about a file. The query's own patient is excluded unless
        `include_same_patient`. any_stain: find slides of other stains than the query's too.
        options: options of the index or the reranker for this search only, such as {"depth": 200}.
        """
        request = Request(
            text=str(query),
            kind=kind or ("region" if region else "slide"),
            region=region,
            annotation=annotation,
            site=site,
            patient=patient,
            center=center,
            mpp=mpp,
            k=k,
            mode=mode,
            where=(where,) if isinstance(where, str) else tuple(where),
            include_same_patient=include_same_patient,
            exclude_center=exclude_center,
            any_stain=any_stain,
            options=tuple(f"{name}={json.dumps(value)}" for name, value in (options or {}).items()),
        )
        try:
            return self.run(request, engine=engine, source="python")
        except ParameterError as error:
            raise error.in_words_of(HOW_TO_GIVE) from error

    def run(self, request: Request, *, engine: str | None = None, source: str = "") -> Result:
        """Run a request and log it in the archive. source: the front end's name; without one it is not logged."""
        searcher = self.searcher(engine)
        result = request.run(searcher)
        return result.with_notes(log_result(searcher, result, source)[1]) if source else result

    def explain(self, result: Result, slide_id: str) -> Evidence:
        """Return which patches make a slide similar to the query of a result."""
        from slideseek.searching.evidence import Explainer

        return Explainer(self.searcher(result.answer.engine)).explain(result.query, slide_id, result.request.options)

    def build(
        self,
        engines: Sequence[str] = (),
        *,
        options: BuildOptions | None = None,
        reporter: Reporter | None = None,
    ) -> BuildSummary:
        """Select, featurize, fit, encode and index what is not done yet, for some engines or all.

        reporter: shows progress; without one the build is silent, and the summary lists what was done.
        """
        from slideseek.building.build import Builder
        from slideseek.building.reporting import Silent
        from slideseek.indexing.live_index import open_engine

        config = self.archive.config
        chosen = [config.engine(name) for name in engines] or config.engines
        # Engines that were built as they are now are not imported until there is something to compute.
        known = [open_engine(self.archive, one, self.registry) for one in chosen]
        summary = Builder(self.archive, known, reporter or Silent(), options).run()
        self.forget()
        return summary

    def status(self) -> dict[str, Any]:
        """Return the state of every slide under every engine, the engines, and the last run, as plain data."""
        from slideseek.indexing.status import archive_status

        return archive_status(self.archive)

    def close(self) -> None:
        """Close the catalogue."""
        self.archive.close()

    def __enter__(self) -> OpenArchive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        root, engines = str(self.archive.root), ", ".join(self.engines)
        return f"<slideseek archive {root!r}: {len(self.slides)} slides, engines {engines}>"

    def _repr_html_(self) -> str:
        engines = ", ".join(map(escape, self.engines))
        return (
            f"<div>archive <b>{escape(self.archive.root.name)}</b>: {len(self.slides)} slides, engines {engines}</div>"
        )


def open_archive(
    folder: Path | str | None = None, registry: Registry | None = None, still: bool = False
) -> OpenArchive:
    """Open the archive in a folder; by default the current folder or the nearest archive above it.

    still: only read it, as one of many machines that share its file system.
    """
    archive = Archive(Path(folder), still) if folder is not None else Archive.locate(Path.cwd(), still)
    return OpenArchive(archive, registry)


def create_archive(folder: Path | str, config: str | None = None, source: str = CONFIG_NAME) -> OpenArchive:
    """Create an archive in a folder and open it.

    config: the text of a `slideseek.toml`, by default with one engine. source: the name of that text in errors.
    """
    from slideseek.engine import make_engines
    from slideseek.plugin_files import plugin_files

    text = default_config() if config is None else config
    parsed = parse_config(text, source)
    registry = load_registry(files=plugin_files(Path(folder), parsed.plugins))
    make_engines(parsed.engines, registry)  # check the configuration before creating the archive
    return OpenArchive(Archive.create(Path(folder), text), registry)
