from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT, Page, all_pages

PAGES = {page.name: page for page in all_pages()}
ELSEWHERE = re.compile(r"/work\b|/root\b|/home/\w|localhost:\d|pypi\.org|/tmp/", re.IGNORECASE)

each_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@each_page
def test_every_link_leads_somewhere(page: Page) -> None:
    for link in page.links():
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            linked = PAGES[str(target.relative_to(ROOT))]
            assert anchor in linked.anchors(), link


@each_page
def test_every_file_that_a_page_names_exists(page: Page) -> None:
    missing = [name for name in page.files() if not (ROOT / name).exists()]
    assert missing == []


@each_page
def test_every_python_block_compiles(page: Page) -> None:
    for block in page.blocks("python"):
        compile("\n" * (block.line - 1) + block.text, page.name, "exec")


@each_page
def test_every_json_block_parses(page: Page) -> None:
    for block in page.blocks("json"):
        json.loads(block.text)


@each_page
def test_no_page_names_a_place_on_somebodys_machine(page: Page) -> None:
    assert ELSEWHERE.findall(page.text) == []


def test_the_readme_leads_to_every_page() -> None:
    readme = PAGES["README.md"]
    linked = {str((ROOT / link.partition("#")[0]).relative_to(ROOT)) for link in readme.links()}
    docs = {name for name in PAGES if name.startswith("docs/")}
    assert docs - linked == set()


def test_every_picture_is_well_formed() -> None:
    pictures = list((ROOT / "docs").glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
