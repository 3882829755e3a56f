"""``python -m skyward``: the command line."""

from skyward.command_line import main

main()
