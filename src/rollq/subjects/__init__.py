"""Subjects and patterns: which jobs go to which workers, and who gets what is
published. Pure.

Reading order: `grammar` (what is legal, and its canonical form), `queues` (from subjects to queue
names, and from what a worker asks for to patterns), `matcher` (the definition of matching, slow and
obvious), `trie` (the same for many patterns at once), `overlap` (pattern against
pattern), `reserved` (subjects that are not for everybody).
"""
