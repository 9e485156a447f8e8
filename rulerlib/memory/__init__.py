"""Memory: what a model still knows of what it was taught.

A suite makes episodes: facts that are taught one after another, and questions that are asked when
all was taught. How the facts reach a model is left open: as one long context, or through a memory
that was given them before. Nothing in them is true of the world, so no model knows an answer by
heart; each question has one answer, which follows from the facts it names. `rulerlib.memory.suites`
has the table of suites with their easy and hard settings, and makes episodes.

====================  ========================================================================
suite                 what is taught and asked
====================  ========================================================================
`episodic`            who did what, where and when; some of it paid to know, some to be kept
`episodic_cross`      the same over several sessions; some questions cannot be answered
`episodic_capacity`   the same with 100 facts, or up to 100,000
`episodic_multi`      a conversation of two people who correct themselves, and take that back
`semantic`            relations that link into chains; the answer is several hops away
`spatial`             walks through a grid of places; shortest ways are asked
====================  ========================================================================

A system is taught an episode's texts, keeps what it will in a folder, and recalls texts for a
question. None of them sees an answer.

================================  =================================================================
`rulerlib.memory.system`          what a system is; texts, and the store that ours keep them in
`rulerlib.memory.rag`             the facts that fit best by words and by vectors, fused
`rulerlib.memory.episodic_index`  a gate that decides what is written, sparse keys
`rulerlib.memory.relation_graph`  relations in a graph that is walked over several hops
`rulerlib.memory.place_map`       a map learnt from walks, and the shortest way over it
`rulerlib.memory.outside`         a memory that somebody else wrote
================================  =================================================================

A preset says what a reader sees besides a question: nothing, all that was taught, what it needs, or
what a system recalls. They are compared under the same prompt and the same decoding:
``rulerlib memory`` teaches and asks, in processes of their own.

============================  =====================================================================
`rulerlib.memory.presets`     the presets and their settings, read from ``presets``
`rulerlib.memory.work`        a suite, a preset and a model: a cell, and where its files stand
`rulerlib.memory.bench`       what is checked, run and told; the command
`rulerlib.memory.teaching`    texts go into a system, in a process of its own
`rulerlib.memory.asking`      what is recalled becomes part of a question, which is then asked
`rulerlib.memory.delivered`   which facts a recalled text tells, whatever a system claims
`rulerlib.memory.measuring`   ``metrics.csv`` and ``metrics.json``
`rulerlib.memory.reading`     the answer that follows from a prompt, for the reference reader
`rulerlib.memory.results`     one row for each question of all runs
`rulerlib.memory.tables`      scores, what was delivered, where answers were lost
`rulerlib.memory.pairs`       presets compared question by question
`rulerlib.memory.plots`       figures of these tables
`rulerlib.memory.report`      the parameters of `notebooks/memory.ipynb`, checked
============================  =====================================================================
"""
