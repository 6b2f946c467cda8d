"""Subjects and patterns: the routing of jobs to workers, and of messages to subscribers. Pure.

Reading order: `grammar` (syntax and canonical form), `queues` (from subjects to queue names, and
from a worker's hello to patterns), `matcher` (the definition of matching, slow and simple), `trie`
(matching of many patterns), `overlap` (pattern against pattern), `reserved` (subjects with
restricted access).
"""
