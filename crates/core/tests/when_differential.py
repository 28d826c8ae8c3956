"""Answers "when next?" with cronsim: one line of expression, zone and second in, one line out."""

import signal
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

# Seconds of computing, not of waiting, after which a question counts as one without an end.
STUCK = 2.0


class Stuck(Exception):
    pass


def give_up(signal_number, frame):
    raise Stuck


signal.signal(signal.SIGVTALRM, give_up)
zones = {}
for line in sys.stdin:
    expression, zone, second = line.rstrip("\n").split("\t")
    if zone not in zones:
        zones[zone] = ZoneInfo(zone)
    start = datetime.fromtimestamp(int(second), zones[zone])
    signal.setitimer(signal.ITIMER_VIRTUAL, STUCK)
    try:
        answer = int(next(CronSim(expression, start)).timestamp())
    except CronSimError as error:
        answer = f"refused: {error}"
    except StopIteration:
        answer = "never"
    except Stuck:
        answer = "stuck"
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(answer)
