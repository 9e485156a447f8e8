"""The memory benchmark: what a model can answer from what it was taught.

A suite makes episodes: facts that are taught one after another, and questions that are asked
afterwards. The facts reach the model as one long context, or through a memory that was taught them.
All names and deeds are made up, so no model knows an answer by heart. Each question has one answer,
which follows from the facts. `rulerlib.memory.suites` lists the suites with their settings.

====================  ========================================================================
suite                 what is taught and asked
====================  ========================================================================
`episodic`            who did what, where and when; some facts are rewarded or pinned
`episodic_cross`      the same over several sessions; some questions have no answer
`episodic_capacity`   the same with 100 facts, or up to 100,000
`episodic_multi`      a conversation of two people who correct themselves
`semantic`            relations that link into chains; the answer is several hops away
`spatial`             walks through a grid of places; shortest routes are asked
====================  ========================================================================

A memory system is taught the texts of an episode, keeps what it needs in a folder, and recalls
texts for a question.

================================  =================================================================
`rulerlib.memory.system`          the base class of systems, texts, and memories from outside
`rulerlib.memory.search`          search by words and vectors; random texts
`rulerlib.memory.episodic_index`  a gate that decides what is kept, and sparse keys
`rulerlib.memory.relation_graph`  relations in a graph that is followed over several hops
`rulerlib.memory.place_map`       a map learnt from walks, and shortest routes on it
================================  =================================================================

A preset says what the prompt holds besides a question: nothing, all facts, the needed facts, or
what a system recalls. All presets are compared with the same prompt format and decoding.

============================  =====================================================================
`rulerlib.memory.presets`     the presets and their settings, and prompts with recalled texts
`rulerlib.memory.work`        a suite, a preset and a model, and the paths of their files; a matrix
`rulerlib.memory.bench`       for each episode teach, close, reopen, ask, score; the command
`rulerlib.memory.measures`    which facts were delivered; ``metrics.csv`` and ``metrics.json``
`rulerlib.memory.reading`     the answer that follows from a prompt, for the reference reader
`rulerlib.memory.tables`      scores, what was delivered, where answers were lost; comparisons
`rulerlib.memory.plots`       figures of these tables
============================  =====================================================================
"""
