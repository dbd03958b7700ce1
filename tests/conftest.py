"""What every test relies on."""

import signal

from hypothesis import settings

# A run in the background of a script starts with SIGINT ignored, and every program started from here would inherit
# that: no test of an interrupt could work.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is about how long something takes, and a busy machine is no fault.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
