"""Programs of `tests.parity.scripts` in one library: `PYTHON scripted_programs.py write|read FOLDER …`."""
