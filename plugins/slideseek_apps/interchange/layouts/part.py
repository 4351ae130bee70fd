"""What a file of another tool holds: one set of features, several, or the vectors of several slides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """The features of one slide by one encoder, inside a file.

    key: names the part to the reader of its layout. encoder: its name, "" when the file does not say. slide: the
    slide's name where a file holds several, else "". whole: one vector for the whole slide.
    """

    key: str = ""
    encoder: str = ""
    slide: str = ""
    whole: bool = False


ONLY = Part()
"""The features of patches in a file that holds nothing else."""
