"""Starts a worker. Its modules are one package of its own, which no module of the user's can be."""

import gc
import os
import sys
import types

if __name__ == "__main__":
    collects = gc.isenabled()
    gc.disable()  # until all is imported: nothing of it is ever freed
    folder = __file__.rpartition("/")[0]
    # A script's own folder comes first there: nothing beside this file may shadow a module.
    if sys.path and sys.path[0] == folder:
        del sys.path[0]
    package = types.ModuleType("_skyward_worker")
    # Beside the package's own modules: what was compiled for this interpreter, if anything was.
    package.__path__ = [folder, folder.rpartition("/")[0] + "/native"]
    package.collects = collects
    package.worker = None  # of this process; for skyward.task.preemption
    package.folder = os.getcwd()  # before functions change it; for skyward.task.checkpoint
    package.start = sys.modules["__main__"]  # user code gets another
    sys.modules["_skyward_worker"] = package
    from _skyward_worker.process import main

    main()
