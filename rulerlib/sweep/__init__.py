"""Sweeps: many models, languages, lengths, tasks and seeds, on one machine or on a cluster.

A plan, a file such as ``params/sweeps/small.yaml``, becomes jobs, and a job becomes answers::

    rulerlib sweep plan params/sweeps/small.yaml      # checks it and writes its jobs
    rulerlib sweep run params/sweeps/small.yaml       # all jobs, or those that are named
    rulerlib sweep status params/sweeps/small.yaml    # done, running, failed, left
    rulerlib sweep collect params/sweeps/small.yaml   # its tables

`rulerlib.sweep.plan` and `rulerlib.sweep.models` read and check the file and make its cells,
`rulerlib.sweep.sweep` cuts them into jobs, `rulerlib.sweep.run` runs a job, each of whose cells is
a `rulerlib.runs.Run`, and `rulerlib.sweep.status` says what is done. `workflow/` has what hands the
jobs to a cluster; nothing here knows of it.
"""
