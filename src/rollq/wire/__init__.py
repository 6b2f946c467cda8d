"""Bytes, frames and messages: what peers say to each other. Pure."""
