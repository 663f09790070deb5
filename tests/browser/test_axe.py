"""Nobody is shut out: every page of the console, by phone and by desk, in the light and in the dark, before the checker axe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
from playwright.sync_api import Page

from bridge.console import pages
from tests.browser.conftest import DESKTOP, Person, Served
from tests.browser.looks import EMPTY, FULL, NO_PAGE, Look, Stage, all_looks, fill
from tests.console.support import Site

# WCAG 2.2 AA and axe's own best practice; the size of what is pressed is the one rule of WCAG 2.2 that axe does not ask by itself.
# The document is the same on both sides: there it is asked only what colours and widths change.
WHOLE = "rules: {'target-size': {enabled: true}}"
SEEN = "runOnly: ['color-contrast', 'link-in-text-block', 'target-size']"
RUN = """axe.run(document, {resultTypes: ['violations'], preload: false, %s})
    .then((found) => [document.documentElement.scrollWidth, found])"""
# Words of up to twelve letters that stand on two lines: keys and addresses may be broken, `webhook` may not.
BROKEN = """() => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    const words = /(?<![\\p{L}\\p{N}])[\\p{L}\\p{N}:]{2,12}(?![\\p{L}\\p{N}])/gu;
    while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(words)) {
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
        if (boxes.some((box) => box.top > boxes[0].top + 2)) found.push(word[0]);
    }
    return found;
}"""
SMALLEST = {"width": 320, "height": 700}  # WCAG 1.4.10
Side = tuple[dict[str, int], str]
SIDES: tuple[Side, ...] = ((SMALLEST, "light"), (DESKTOP, "dark"))


def test_every_page_has_its_row(redis_url: str, stand_in) -> None:
    """A new page is looked at: give it a row in tests/browser/looks.py, or a reason in NO_PAGE."""
    site = Site(redis_url, stand_in)
    rules = [rule for rule in site.app.url_map.iter_rules() if rule.endpoint.startswith("console.") and "GET" in rule.methods]
    shown = {rule.endpoint.removeprefix("console.") for rule in rules} - set(NO_PAGE)
    assert shown - {look.endpoint for look in all_looks()} == set()
    site.close()


@pytest.mark.parametrize("person", [{"reduced_motion": "reduce"}], indirect=True)
def test_axe_finds_nothing_on_any_page(person: Person, served: Served, axe_source: str) -> None:
    stage, faults = Stage(person, served.site), []
    for looks, prepare in ((EMPTY, None), (FULL, fill)):
        if prepare:
            served.stop.set()  # what waits for a worker stays as it is
            prepare(stage)
        for number, look in enumerate(looks):
            look.reach(stage)
            sides = SIDES[:: 1 if number % 2 == 0 else -1]  # each begins where the one before has ended
            faults += [f"{look.endpoint}, {look.what}: {fault}" for fault in wrong(look, person, served)]
            faults += [f"{look.endpoint}, {look.what}: {fault}" for fault in violations(person.page, axe_source, sides)]
    assert not faults, "\n".join(faults)


def wrong(look: Look, person: Person, served: Served) -> Iterator[str]:
    """Whether this is the page that was meant, with nothing to complain of but its own status."""
    expected = [one for one in person.complaints if look.status != 200 and f"status of {look.status} " in one]
    person.complaints[:] = [one for one in person.complaints if one not in expected[:1]]
    if look.status != 200 and not expected:
        yield f"no status {look.status}"
    yield from person.complaints
    person.complaints.clear()
    path = person.page.url.removeprefix(served.url).partition("?")[0]
    answering = {served.site.app.url_map.bind("localhost").match(path, method)[0] for method in methods(served.site, path)}
    if f"console.{look.endpoint}" not in answering:
        yield f"{path} is answered by {answering}"


def methods(site: Site, path: str) -> Iterator[str]:
    return (method for method in ("GET", "POST") if site.app.url_map.bind("localhost").test(path, method))


def violations(page: Page, source: str, sides: Iterable[Side]) -> Iterator[str]:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(source)
    for (viewport, scheme), rules in zip(sides, (WHOLE, SEEN), strict=True):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)
        width, found = page.evaluate(RUN % rules)
        if width > viewport["width"]:
            yield f"it is {width} pixels wide where there are {viewport['width']}"
        if broken := page.evaluate(BROKEN):
            yield f"at {viewport['width']} pixels these words are broken: {broken[:5]}"
        for one in found["violations"]:
            yield f"{scheme}, {viewport['width']}: {one['id']} {one['help']} {[node['html'][:120] for node in one['nodes']][:3]}"


def test_the_width_changes_no_colour_and_hides_nothing() -> None:
    """So that light on a phone and dark on a desk stand for all four."""
    sheet = (pages.STATIC / "console.css").read_text("utf-8")
    wide = re.findall(r"@media \((?:min|max)-width[^{]*\{(.*?)\n\}", sheet, re.DOTALL)
    assert wide
    assert not [one for one in wide if re.search(r"color|background|fill|stroke|border|var\(--|none|hidden", one.replace("flex: none", ""))]
