"""Random command lines, configurations and archives: every error has a cause and a next step, none is a traceback."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from reliability.hostile_files import call, make_archive
from reliability.hostile_slides import CONFIG
from reliability.row import Effort, Figure, Row
from reliability.trial import Outcome, in_child

SKIPPED = frozenset(("serve", "session", "watch", "demo", "collections"))
"""Commands that wait for somebody, take minutes by design, or ask a server elsewhere."""

WORDS = (
    *("a", "b", "z", "", " ", "-", "--", "-1", "0", "1", "3", "999999999999999999999", "1e400", "nan", "-inf", "0x10"),
    *(
        "site=lung",
        "=",
        "a=b=c",
        "1,2,3",
        "0,0,10,10",
        "9,9,1,1",
        "../..",
        "/etc/passwd",
        "/dev/null",
        "/nowhere/at/all",
    ),
    *("é", "💥", "a" * 300, "%s%n", "{}", "[]", "parts", "mean", "hamming", "table", "features", "json"),
    *(
        "http://127.0.0.1:9/x.svs",
        "s3://nowhere/x",
        "file:///etc/passwd",
        "idc:nothing",
        "*",
        "~",
        "$HOME",
        "\\n",
        "'",
        '"',
    ),
)
STRANGE = (
    *("", "x", "[[engine]]", "[engine]\nname = 1", CONFIG.replace("mean", "no-such"), CONFIG.replace("64", "-64")),
    *(
        CONFIG.replace("64", '"64"'),
        CONFIG.replace("cosine", "hamming"),
        CONFIG + CONFIG,
        CONFIG.replace("grid", "mosaic"),
    ),
    *(
        CONFIG.replace("0.2", "2.0"),
        CONFIG.replace("name", "nome"),
        'plugins = ["../x.py"]\n' + CONFIG,
        "\ufeff" + CONFIG,
    ),
    *(
        CONFIG.replace('use = "mean"', 'use = ["mean"]'),
        CONFIG.replace("1.0", "1e-300"),
        'executor = "none"\n' + CONFIG,
    ),
)
DAMAGED = ("slideseek.toml", "catalog.sqlite", "index", "features", "models")


def commands() -> dict[tuple[str, ...], list[click.Parameter]]:
    """Return all commands, each with its parameters."""
    from slideseek.cli import cli as group

    found: dict[tuple[str, ...], list[click.Parameter]] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        if name in SKIPPED:
            continue
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                inner = command.get_command(context, part)
                if inner is not None and part != "paper":
                    found[name, part] = list(inner.params)
        elif command is not None:
            found[name,] = list(command.params)
    return found


@st.composite
def lines(draw: st.DrawFn, known: dict[tuple[str, ...], list[click.Parameter]]) -> list[str]:
    """Draw a command line: a command, some of its options with any values, and some words."""
    name = draw(st.sampled_from(sorted(known)))
    value = st.one_of(
        st.sampled_from(WORDS), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
    )
    words = list(name)
    for parameter in draw(st.lists(st.sampled_from([*known[name], None]), max_size=4)):
        if isinstance(parameter, click.Option):
            words.append(draw(st.sampled_from(parameter.opts)))
            if not parameter.is_flag:
                words.append("ARCHIVE" if "--archive" in parameter.opts else draw(value))
        elif parameter is not None:
            words.append(draw(value))
    if draw(st.integers(0, 9)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(value))
    return words


def spoil(archive: Path, what: int, at: float, content: str) -> None:
    """Change an archive as an accident or a stranger may: a configuration, a cut, a removed part, wrong bytes."""
    name = DAMAGED[what % len(DAMAGED)]
    path = archive / name
    if name == "slideseek.toml":
        path.write_text(content, encoding="utf-8")
    elif path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        if what % 2 or not files:
            shutil.rmtree(path)
        else:
            files[int(at * len(files)) % len(files)].write_bytes(content.encode())
    elif path.exists():
        data = bytearray(path.read_bytes())
        place = int(at * (len(data) - 1))
        data[place : place + 16] = os.urandom(16) if what % 3 else b""
        path.write_bytes(data[:place] if what % 7 == 0 else data)


def wrong(done: Outcome) -> str:
    """Return what is wrong with how a command line ended, "" if nothing is."""
    if done.end != "answered":
        return f"{done.end}: {done.text[-1500:]}"
    code, text = done.value
    if "Traceback (most recent call last)" in text or "this is a bug in slideseek" in text.lower():
        return f"exit {code}: {text[-1500:]}"
    if code in (0, 3, 130):
        return ""
    usage = ("Usage:" in text and "Error:" in text) or "Try '" in text
    explained = usage or "fix:" in text or '"fix":' in text
    return "" if explained else f"exit {code}, no next step: {text[-500:]}"


def run(effort: Effort) -> Iterator[Figure]:
    """Run command lines in forked children, a part of them on an archive that was spoilt before."""
    from slideseek.searching import searcher  # noqa: F401

    base, known = make_archive(effort.work / "base"), commands()
    trials = effort.trials(1000, 30)
    found: dict[str, list[str]] = {}
    counts = {"sound archive": 0, "spoilt archive": 0, "other configuration": 0}
    work = effort.work / "trial"

    @seed(effort.seed)
    @settings(
        max_examples=trials,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(lines(known), st.integers(0, 2), st.integers(0, 999), st.floats(0, 1), st.sampled_from(STRANGE))
    def trial(words: list[str], kind: int, what: int, at: float, content: str) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(base, work / "archive")
        if kind == 1:
            spoil(work / "archive", what, at, content)
        elif kind == 2:
            (work / "archive" / "slideseek.toml").write_text(content, encoding="utf-8")
        counts[list(counts)[kind]] += 1
        given = [str(work / "archive") if word == "ARCHIVE" else word for word in words]

        def child() -> Any:
            signal.alarm(0)
            os.chdir(work / "archive")
            return call(given)

        if problem := wrong(in_child(child, 60)):
            found.setdefault(problem.strip().splitlines()[-1][:100], [" ".join(words), problem])

    trial()
    yield Figure(
        "command lines with mutated arguments, configurations and archives",
        sum(counts.values()),
        {**counts, "tracebacks, crashes, hangs or no next step": len(found)},
        not found,
        examples=tuple(f"{line}\n      {problem}" for line, problem in list(found.values())[:12]),
    )


ROW = Row(
    "command_lines",
    "Command lines",
    "1,000 random invocations: no bare traceback; every error has a cause and a next step",
    run,
)
