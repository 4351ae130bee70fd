"""The hooks a plugin may implement, one per kind of extension.

A plugin is a module (or object) named by an entry point in the group `slideseek`::

    from slideseek.hookspecs import Register, hookimpl

    @hookimpl
    def register_encoders(register: Register) -> None:
        register("my-encoder", "my_package.encoder:MyEncoder", "one line that says what it does")

The second argument is an import string: listing plugins imports none of them.

A hook exists when at least two bundled implementations use it.
"""

from collections.abc import Callable
from typing import TypeAlias

import pluggy

PROJECT = "slideseek"

API_VERSION = 1
"""Version of the hooks and protocols. A plugin module may state `slideseek_api = 1`, the version it was written for."""
OLDEST_API = 1
"""The oldest version that plugins may be written for."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Register: TypeAlias = Callable[[str, str, str], None]
"""`register(name, "package.module:Name", "one-line summary")`"""


class Hooks:
    """The hook specifications; each is called once with a `register` callable."""

    @hookspec
    def register_selectors(self, register: Register) -> None:
        """Register classes that choose patches (`slideseek.interfaces.Selector`)."""

    @hookspec
    def register_featurizers(self, register: Register) -> None:
        """Register classes that turn patches into features (`slideseek.interfaces.Featurizer`)."""

    @hookspec
    def register_encoders(self, register: Register) -> None:
        """Register classes that turn a bag of features into a code (`slideseek.interfaces.Encoder`)."""

    @hookspec
    def register_indexes(self, register: Register) -> None:
        """Register classes that find the nearest codes (`slideseek.interfaces.Index`)."""

    @hookspec
    def register_rerankers(self, register: Register) -> None:
        """Register classes that order the nearest slides again (`slideseek.interfaces.Reranker`)."""

    @hookspec
    def register_readers(self, register: Register) -> None:
        """Register classes that open slide files (`slideseek.interfaces.Reader`)."""

    @hookspec
    def register_executors(self, register: Register) -> None:
        """Register classes that run the work of a build (`slideseek.interfaces.Executor`)."""

    @hookspec
    def register_commands(self, register: Register) -> None:
        """Register commands of the command line (`click.Command` objects)."""

    @hookspec
    def register_datasets(self, register: Register) -> None:
        """Register kinds of data the benchmark can read (`slideseek_apps.bench.datasets.Adapter` classes)."""
