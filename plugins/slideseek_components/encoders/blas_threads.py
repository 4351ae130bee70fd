"""Pin BLAS to one thread where the last bits of a result must not depend on the machine's thread count."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limit: AbstractContextManager[Any] | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run NumPy, SciPy and scikit-learn on one thread inside the block.

    The setting is global to the process: the first user sets it and the last one restores it. With several Python
    threads encoding at once, no block runs with the old setting.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _libraries(len(sys.modules)).limit(limits=1)
            _limit.__enter__()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limit is not None:
                _limit.__exit__(None, None, None)
                _limit = None


@lru_cache(maxsize=1)
def _libraries(imported: int) -> ThreadpoolController:
    """Return the BLAS and OpenMP libraries that are loaded.

    imported: number of imported modules. A library is loaded with the module that needs it, so the search, which takes
    longer than encoding a slide, is repeated only after an import.
    """
    return ThreadpoolController()
