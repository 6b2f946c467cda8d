"""Subjects and patterns: grammar, matcher, trie, overlap. Pure."""
