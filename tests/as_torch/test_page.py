"""docs/coming-from-pytorch.md tells what the library itself says."""

from flambeau.as_torch._differences import TABLE

from . import page


def test_the_page_is_up_to_date():
    assert page.PAGE.read_text("utf-8") == page.page(), "run: python -m tests.as_torch.page"


def test_the_tables_hold_what_they_are_made_of():
    text = page.page().partition(page.MARK)[2]
    for entries in TABLE.values():
        assert all(f"`{name}`" in text and sentence in text for names, sentence in entries for name in names.split())
    assert all(f"| {reason} |" in text for name in page.SPACES for reason in page.refused(name))
    assert page.refused("linalg") == {} and "`linalg`" in text
