"""What tests of the page share: how to wait, open slides and look at what is painted."""

import re
import time

WAIT = 30_000


def until(page, condition):
    """Wait for a condition in the page. Playwright's own way evaluates text in it, which the page's policy forbids."""
    deadline = time.monotonic() + WAIT / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(30)


def open_query(page, slide_id):
    page.locator(".card", has_text=slide_id).click()
    page.wait_for_selector(".hit:not(.skeleton)")
    page.wait_for_selector(".pane .scale:not([hidden])")


def open_first_hit(page):
    page.locator(".hit").first.click()
    page.wait_for_selector("#sum strong")
    page.wait_for_selector("section[aria-label=Hit] .scale:not([hidden])")


def painted(page, pane):
    """Return how many pixels of a pane's layer are painted."""
    return page.evaluate(
        """(pane) => { const layer = document.querySelector(`section[aria-label=${pane}] canvas.layer`);
        const data = layer.getContext('2d').getImageData(0, 0, layer.width, layer.height).data;
        let count = 0; for (let at = 3; at < data.length; at += 4) count += data[at] > 0; return count; }""",
        pane,
    )


def scales(page):
    return [re.sub(r".* · ", "", text) for text in page.locator(".scale").all_inner_texts()]
