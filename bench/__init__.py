"""Measurements of speed and memory. Nothing here is imported by the product."""
