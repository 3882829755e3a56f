"""`python -m skyward.base.uv_for arm64` prints the path of uv for machines of that architecture,
fetched if need be; nothing where there is none to have. The engine asks when it knows what it
rents."""

import sys

from skyward.base.programs import fetch_uv

if __name__ == "__main__":
    print(fetch_uv(sys.argv[1]) or "")
