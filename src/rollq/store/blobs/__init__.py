"""Blobs: content that is named by its digest, on a local disk or in a store that members share.

A blob is there as a whole and verified, or it is not there. Nothing in here holds a whole blob in
memory, knows jobs, or decides what is still needed: that is told from outside (`keeper`).
"""
