"""A module that needs a library that is not installed."""

import no_such_library  # noqa: F401
