"""Scenarios as text: commands and what they must print, one folder a machine."""
