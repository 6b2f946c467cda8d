"""Python values as bytes: the arguments and results of functions. Reading order:

1. `codec`: one value as bytes and back: what is plain in msgpack, the rest as tagged extensions;
2. `plain`, `records`, `arrays`: how the kinds of the standard library, of classes (dataclasses,
   enums, exceptions, …) and of numpy, Arrow, pandas and polars are tagged;
3. `calls`: the arguments of a call or of many, with what is large or a file apart;
4. `outcomes`: how each of many calls ended.

The bytes are a promise, as those of messages are: tags (`codec.Tag`) are added, never reused.
Nothing is unpickled, and nothing that bytes name is imported: a class is found among the modules
that the reader has imported itself. No job, no network in here.
"""

from rollq.values import arrays, plain, records  # noqa: F401 - they enter their kinds in the tables
