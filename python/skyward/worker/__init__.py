"""The process that runs the user's functions: one slot of a node.

Started by the agent as a script, ``python start.py``, with a socket at descriptor 3 and a pipe at
descriptor 4. It is the Python twin of ``skyward/wire/worker_protocol.h``; it has the layouts and
rules. It needs the standard library and cloudpickle, nothing else of Skyward: user code may import
``skyward``, this folder must not. Its modules are called ``_skyward_worker.…``."""
