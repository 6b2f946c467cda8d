"""The history as tables: bronze events, silver jobs and attempts, gold figures.

A batch of new events becomes files of all tables, and one manifest makes them visible together.
"""
