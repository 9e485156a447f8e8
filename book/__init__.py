"""What turns the prose, the notebooks and `rulerlib` into a site: see `book/contribute/site.md`."""
