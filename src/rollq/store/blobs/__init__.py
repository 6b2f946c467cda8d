"""Blobs: content that is named by its digest, on a local disk or in a store that members share.

Reading order: `protocol` (what every store can do), `incoming`, `partial` and `staged` (a blob on
its way in), `local` and `remote` (the two stores), `index` and `keeper` (what is kept, what may
go), `scrub` (reading blobs again to find damage), `files` (plain files as sources), `failures`.

A blob is there as a whole and verified, or it is not there. Nothing in here holds a whole blob in
memory, knows jobs, or decides what is still needed: that is told from outside (`keeper`).
"""
