"""`record VERSION` keeps what an SDK asks and names; `try [VERSION]` tells what a release needs."""

from __future__ import annotations

import argparse
import sys

from tests.contract.contract import contract_path, kept_contracts, write_contract
from tests.contract.making import build_contract
from tests.contract.recording import record
from tests.contract.sdks import LATEST, python_with
from tests.contract.trying import compare, render
from tests.outside.recording import ask_sdk, keep, list_differences


def main() -> int:
    """Run one of the two commands and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("version")
    commands.add_parser("try").add_argument("version", nargs="?", default=LATEST)
    given = parser.parse_args()
    sys.stderr.write(f"a user's session with wandb {given.version}; about a minute\n")
    python = python_with(given.version)
    session = record(python)
    contract = build_contract(session)
    if given.command == "record":
        path = contract_path(contract.wandb)
        path.write_text(write_contract(contract))
        sys.stdout.write(f"{path}\n{keep(python, contract.wandb)}\n")
        return 0
    newest = kept_contracts()[-1]
    trial = compare(session, contract, newest)
    sys.stdout.write(render(trial, contract.wandb, newest.wandb) + "\n")
    named = list_differences(newest.wandb, ask_sdk(python))
    sys.stdout.write("\n  ".join([f"named otherwise than {newest.wandb} does:", *named]) + "\n")
    return 0 if trial.passed and not named else 1


if __name__ == "__main__":
    sys.exit(main())
