"""How `lille`, the small model inside rulerlib, is trained. Start at README.md."""
