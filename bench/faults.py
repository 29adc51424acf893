"""Do everything to a build that has ever made a build tool wrong, and compare with a clean build.

    python bench/faults.py [--ci] [--only GLOB] [--seed N]

Each line is one fault: what is done to inputs, outputs, state, tools, clock or environment, or to
the process itself. Afterwards the outputs have to be those of a clean build elsewhere, byte for
byte, and no more stages may have run than the fault calls for. SIGKILL comes at 200 random
moments, 20 with --ci. A fault that this computer cannot play (no right to mount, no faketime) is
`skipped` and says why; of others the processor time is told. Ends with `N passed, M failed`; the
exit status is 1 if M > 0.
"""

import argparse
import os
import shutil
import sys
import tempfile
import traceback
from fnmatch import fnmatch
from pathlib import Path

import faults_inputs
import faults_kill
import faults_state
import faults_tools
from faults_project import Lab


def cpu_seconds() -> float:
    """Return the processor time of this process and of those it started, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> int:
    """Play every fault and print a line for each."""
    parser = argparse.ArgumentParser(description="Play faults and compare with clean builds.")
    parser.add_argument("--ci", action="store_true", help="fewer random moments")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of faults")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    given = parser.parse_args()
    kills = faults_kill.cases(20 if given.ci else 200, given.seed)
    cases = {**faults_inputs.CASES, **faults_state.CASES, **faults_tools.CASES, **kills}
    chosen = {name: case for name, case in cases.items() if fnmatch(name, given.only)}
    work = Path(tempfile.mkdtemp(prefix="dlbuild-faults-"))
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    try:
        lab = Lab(work)
        for name, case in chosen.items():
            fault, verdict, before_s = "", "ok", cpu_seconds()
            try:
                fault = case(lab) or ""
                verdict = "skipped" if fault else "ok"
            except AssertionError as error:
                fault, verdict = str(error) or traceback.format_exc(limit=-1), "FAILED"
            counts[verdict] += 1
            took = f" ({cpu_seconds() - before_s:.1f} s)" if verdict == "ok" else ""
            print(f"{name}: {verdict}{took}{': ' + fault if fault else ''}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if counts["skipped"]:
        print(f"{counts['skipped']} skipped")
    print(f"{counts['ok']} passed, {counts['FAILED']} failed")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
