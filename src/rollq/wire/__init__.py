"""Bytes, frames and messages: what peers send to each other. Pure.

Reading order:

1. `registry`: the table of messages: number, struct, direction, features, action and resources of
   each. Everything below takes from it what it needs.
2. `login_messages`, `messages`, `run_messages`, `output_messages`, `staging_messages`,
   `subject_messages`, `blob_messages`, `reader_messages`: the structs; `fields` has the types of
   their fields, with bounds.
3. `rules`, `checks`: how bounds are written, and the check that every received message passes.
4. `features`, `handshake`: what peers agree on, and who may send what in which state.
5. `frame`, `compact`, `legacy_codec`, `models`, `message_codec`: from messages to bytes and back,
   in two dialects; `header`, `compression`: the optional area before a payload.
6. `connection`: one end of a connection, which puts all of this together; `shared_frames`: bytes
   that go to many.
7. `kept`: what stands in a message for a payload that is too large for the log.

A new message type is a struct and its row in `registry`; a field of a type without bounds, or a
struct without a row, fails when the package is imported or in `tests/unit/wire/test_registry.py`.
"""
