"""Trains `lille`, the small model that ships inside rulerlib. Start at README.md."""
