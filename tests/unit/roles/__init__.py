"""Unit tests of the roles."""
