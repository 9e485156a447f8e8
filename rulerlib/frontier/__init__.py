"""Six families of tasks that tell today's best models apart, which RULER's hardly do.

They are a plug-in: nothing in the rest of rulerlib imports them. Their families are entry points of
the group ``rulerlib.tasks``, as those of any other package would be (`rulerlib.tasks.outside`).
"""
