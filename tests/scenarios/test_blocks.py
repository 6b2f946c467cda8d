import pytest

from tests.scenarios.blocks import ScriptError, parse_blocks, rewrite_text
from tests.scenarios.runner import Machine, compare, rewrite

TEXT = """# head
one a b=1 c=(2, 3)
----
x
  y

# between
two \\
  word
input
----

three
----
----
p

q
----
----

"""


def test_blocks_are_read() -> None:
    one, two, three = parse_blocks(TEXT)
    assert (one.line, one.command, one.words) == (2, "one", ("a",))
    assert one.options == {"b": ("1",), "c": ("2", "3")}
    assert one.expected == ("x", "  y")
    assert (two.words, two.input, two.expected) == (("word",), ("input",), ())
    assert three.expected == ("p", "", "q")


def test_rewriting_with_the_same_output_changes_nothing() -> None:
    same = {block.line: "\n".join(block.expected) for block in parse_blocks(TEXT)}
    assert rewrite_text(TEXT, same) == TEXT.rstrip("\n") + "\n"


def test_a_command_without_a_ruler_is_an_error() -> None:
    with pytest.raises(ScriptError) as caught:
        parse_blocks("\ncommand\nand no ruler\n")
    assert caught.value.line == 2


COUNTER = Machine(list, {"add": lambda world, block: str(world.append(block.word(0)) or world)})


def test_a_difference_is_shown_and_rewritten() -> None:
    text = "add a\n----\n['a']\n\nadd b\n----\n['b']\n"
    assert "+['a', 'b']" in compare(COUNTER, text)
    rewritten = rewrite(COUNTER, text)
    assert rewritten == "add a\n----\n['a']\n\nadd b\n----\n['a', 'b']\n"
    assert compare(COUNTER, rewritten) == ""


def test_an_unknown_command_names_the_known_ones() -> None:
    with pytest.raises(ScriptError, match="knows: add"):
        compare(COUNTER, "subtract a\n----\n")
