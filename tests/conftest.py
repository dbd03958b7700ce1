"""What every test relies on."""

import signal

# A run in the background of a script starts with SIGINT ignored, and every program started from here would inherit
# that: no test of an interrupt could work.
signal.signal(signal.SIGINT, signal.default_int_handler)
