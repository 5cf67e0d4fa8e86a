"""Runs the steps of a client and prints one line per step: `ok NAME`, or `NAME: outcome`."""
import suite


def run(steps):
    for step in steps:
        try:
            step()
            print("ok", step.__name__, flush=True)
        except Exception as error:
            print(f"{step.__name__}: {suite.what((type(error), error))}", flush=True)
