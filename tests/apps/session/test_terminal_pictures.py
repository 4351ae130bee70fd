"""Pictures in terminals: found out by what the terminal says, and decoded again to what was sent."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from slideseek_apps.session.terminal_pictures import encode, from_environment

SIXEL = re.compile(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|([$?-~-])")
"""A colour, with or without its definition; a run of a letter; a letter or a move."""


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1", "TMUX": "x"}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "dumb"}, "none"),
    ],
)
def test_what_a_terminal_says_of_itself(environment, protocol):
    assert from_environment(environment) == protocol


@pytest.fixture
def picture():
    rows, columns = np.mgrid[0:50, 0:70]
    return np.stack([4 * rows, 3 * columns, np.full_like(rows, 90)], axis=-1).astype(np.uint8)


def test_kitty_sends_the_picture_in_chunks(picture):
    noise = np.random.default_rng(0).integers(0, 255, (80, 80, 3), dtype=np.uint8)
    sent = encode(noise, "kitty")
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", sent)
    assert len(chunks) > 1 and [settings[-3:] for settings, _ in chunks][-1] == "m=0"
    assert all(len(data) <= 4096 for _, data in chunks) and chunks[0][0].startswith("a=T,f=100")
    png = base64.b64decode("".join(data for _, data in chunks))
    assert (np.asarray(Image.open(io.BytesIO(png))) == noise).all()


def test_iterm_sends_a_png(picture):
    sent = encode(picture, "iterm")
    assert sent.startswith("\x1b]1337;File=inline=1;size=") and sent.endswith("\a")
    png = base64.b64decode(sent.partition(":")[2][:-1])
    assert (np.asarray(Image.open(io.BytesIO(png))) == picture).all()


def test_sixel_draws_every_pixel_in_about_its_colour(picture):
    drawn = decode_sixel(encode(picture, "sixel"))
    assert drawn.shape == picture.shape
    assert (drawn >= 0).all(), "every pixel is drawn"
    assert np.abs(drawn - picture).mean() < 12


def decode_sixel(text):
    """Read sixel back: int (h, w, 3), -1 where nothing was drawn."""
    head = re.match(r'\x1bPq"1;1;(\d+);(\d+)', text)
    assert head is not None
    width, height = (int(number) for number in head.groups())
    drawn = np.full((-(-height // 6) * 6, width, 3), -1)
    palette, colour, x, band = {}, 0, 0, 0
    body = text[text.index("#") : -2]
    for number, *rgb, repeat, run, single in SIXEL.findall(body):
        letter = run or single
        if number:
            colour = int(number)
            if rgb[0]:
                palette[colour] = [int(v) * 255 / 100 for v in rgb]
        elif letter == "$":
            x = 0
        elif letter == "-":
            x, band = 0, band + 1
        else:
            run_end = x + int(repeat or 1)
            for bit in range(6):
                if (ord(letter) - 63) >> bit & 1:
                    drawn[6 * band + bit, x:run_end] = palette[colour]
            x = run_end
    return drawn[:height]


def test_blocks_are_two_pixels_a_letter(picture):
    lines = encode(picture, "blocks").split("\n")
    assert len(lines) == 20 and all(line.count("▀") == 56 and line.endswith("\x1b[0m") for line in lines)
    assert encode(picture, "none") == ""
