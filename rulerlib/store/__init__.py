"""The files of a run: where they are (`cell`), and how `questions` and `answers` are stored."""
