"""The code that makes a site of prose, notebooks and `rulerlib`; see CONTRIBUTING.md."""
