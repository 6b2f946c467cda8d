"""Blobs: content that is named by its digest, on a local disk or in a store that members share.

Reading order: `protocol` (the interface), `incoming`, `partial` and `staged` (receiving a blob),
`local` and `remote` (the two stores), `index` and `keeper` (eviction), `scrub` (verifying stored
blobs), `files` (plain files as sources), `failures`.

A blob is visible as a whole and verified, or not at all. Nothing in here holds a whole blob in
memory or knows jobs; which blobs are referenced is passed in (`keeper`).
"""
