"""The code that makes a site of prose, notebooks and `rulerlib`: see `book/contribute/site.md`."""
