"""A version of a format is one shape of it: who changes the shape raises the version."""

from __future__ import annotations

import pytest

from tests.replay.shapes import FOLDER, FORMATS, path_of, read, shape_of, written


@pytest.mark.parametrize("name", FORMATS)
def test_a_version_has_one_shape(name: str) -> None:
    version, kinds = FORMATS[name]
    path = path_of(name, version)
    assert path.exists(), "a new version: `python -m tests.replay.shapes` writes its shape down"
    known = read(path.read_text(encoding="ascii"))
    assert shape_of(kinds) == known, "raise VERSION: older members must stop, and not guess"


@pytest.mark.parametrize("name", FORMATS)
def test_fields_are_appended_and_nothing_goes(name: str) -> None:
    _, kinds = FORMATS[name]
    shape = shape_of(kinds)
    for path in FOLDER.glob(f"shape-{name}-v*.txt"):
        for record, fields in read(path.read_text(encoding="ascii")).items():
            assert shape[record][: len(fields)] == fields, f"{record} of {path.stem}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_shape_is_read_as_it_was_written(name: str) -> None:
    shape = shape_of(FORMATS[name][1])
    assert read(written(shape)) == shape
    assert len(shape) > 10
