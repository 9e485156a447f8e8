"""The files of a run: their paths (`cell`), and the formats of `questions` and `answers`."""
