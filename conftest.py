"""What the notebooks that nbmake runs leave behind goes to a folder of its own."""

import os
import tempfile

# Set before any kernel starts: a run found in runs/ would be resumed, and nothing tested.
os.environ["RULERLIB_HOME"] = tempfile.mkdtemp(prefix="rulerlib-")
