"""Which ticks a schedule has around each transition of a time zone: a second opinion, to compare the library with.

It knows nothing of the library. A time zone is what `zoneinfo` tells of single instants. Around each transition it
walks minute by minute and writes down what the clock shows; an expression is looked up in there.

    oracle.py expressions                           the expressions that are tried
    oracle.py ticks ZONE EXPRESSION [GAP FOLD]      all ticks around transitions: GAP is shift or skip, FOLD is first,
                                                    last or both
    oracle.py serve                                 answers questions, a line of JSON each
"""

import json
import os
import sys
import zoneinfo
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from cron import Cron
from expressions import expressions

HOUR = 3600
# Transitions are searched from the last days of 1969 to the first of 2038: on any clock, that is 1970 to 2037.
FIRST = int(datetime(1969, 12, 30, tzinfo=timezone.utc).timestamp())
LAST = int(datetime(2038, 1, 3, tzinfo=timezone.utc).timestamp())
# Two transitions within one step that undo each other are not found. Whoever compares may know the zone's data, too.
STEP = 6 * HOUR
# How far to walk before and after a transition, in addition to the change of the offset.
MARGIN = 3 * HOUR

NORMAL, SHIFTED, SECOND_OF_TWO = 0, 1, 2
KINDS = ["normal", "shifted", "second of two"]
POLICIES = [(gap, fold) for gap in ("shift", "skip") for fold in ("first", "last", "both")]


def offset(zone, instant):
    """The offset of the zone, in seconds."""
    return int(datetime.fromtimestamp(instant, zone).utcoffset().total_seconds())


def change(zone, low, high):
    """The first instant with another offset than at `low`. The offset at `high` is another."""
    before = offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=None)
def transitions(name):
    """The instants at which the offset changes, each with the change."""
    zone, found = zoneinfo.ZoneInfo(name), []
    low, before = FIRST, offset(zone, FIRST)
    while low < LAST:
        high = min(low + STEP, LAST)
        after = offset(zone, high)
        if after == before:
            low = high
        else:
            low = change(zone, low, high)
            now = offset(zone, low)
            found.append((low, now - before))
            before = now
    return found


def windows(name):
    """The times around transitions, as `[start, end, transitions]`. Those that meet are one."""
    found = []
    for instant, by in transitions(name):
        start, end = instant - abs(by) - MARGIN, instant + abs(by) + MARGIN
        if found and start <= found[-1][1]:
            found[-1][1] = max(end, found[-1][1])
            found[-1][2].append(instant)
        else:
            found.append([start, end, [instant]])
    return found


def minute(local):
    """A minute of a clock: the date as a number, the hour, the minute."""
    return local.toordinal(), local.hour, local.minute


class Window:
    """What the clock shows around a transition, minute by minute."""

    def __init__(self, zone, start, end, changes):
        self.start, self.end = start, end
        # for each hour of the clock: its minutes, with the instants at which the clock shows them
        self.shown = {}
        for first, last in zip([start, *changes], [*changes, end]):
            self.walk(zone, first, last)
        # for each hour: the minutes that the clock leaves out, with the first instant behind
        self.missing = {}
        for instant in changes:
            self.leave_out(zone, instant)
        hours = sorted({*self.shown, *self.missing})
        self.hours = [(*hour, self.shown.get(hour, {}), self.missing.get(hour, {})) for hour in hours]

    def walk(self, zone, instant, end):
        """Writes down each full minute of a time in which the offset stays the same."""
        instant += -datetime.fromtimestamp(instant, zone).second % 60
        while instant < end:
            date, hour, of_hour = minute(datetime.fromtimestamp(instant, zone))
            self.shown.setdefault((date, hour), {}).setdefault(of_hour, []).append(instant)
            instant += 60

    def leave_out(self, zone, instant):
        """Writes down the minutes between what the clock shows before and after a transition, if shown nowhere."""
        second = timedelta(seconds=1)
        wall = datetime.fromtimestamp(instant - 1, zone).replace(tzinfo=None, fold=0) + second
        after = datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0)
        while wall < after:
            date, hour, of_hour = minute(wall)
            if wall.second == 0 and of_hour not in self.shown.get((date, hour), ()):
                self.missing.setdefault((date, hour), {})[of_hour] = instant
            wall += second

    def look_up(self, cron):
        """For each matching minute the instants at which the clock shows it, and the ends of gaps with matches."""
        instants, ends = [], set()
        for date, hour, shown, missing in self.hours:
            if hour in cron.hours and cron.has_date(date):
                instants.extend(shown[it] for it in cron.minutes & shown.keys())
                ends.update(missing[it] for it in cron.minutes & missing.keys())
        return instants, ends


def ticks(instants, ends, gap, fold):
    """The ticks under these policies, in order: each an instant and a kind."""
    found = {}
    for same in instants:
        if fold == "first":
            found[same[0]] = NORMAL
        elif fold == "last":
            found[same[-1]] = NORMAL
        else:
            found.update(dict.fromkeys(same[1:], SECOND_OF_TWO))
            found[same[0]] = NORMAL
    if gap == "shift":
        for end in ends:
            found.setdefault(end, SHIFTED)
    return sorted(found.items())


@lru_cache(maxsize=2)
def walked(name):
    """All windows of a zone."""
    zone = zoneinfo.ZoneInfo(name)
    return [Window(zone, *window) for window in windows(name)]


@lru_cache(maxsize=1000)
def cron_of(text):
    """The expression; what it knows of dates is kept."""
    return Cron(text)


def digest(found):
    """A number for these ticks."""
    number = 0
    for instant, kind in found:
        number = (number * 6364136223846793005 + instant * 4 + kind) % 2**64
    return number


def digests(name, text):
    """For each pair of policies: how many ticks there are around all transitions, and a number for them."""
    cron = cron_of(text)
    counts, numbers = [0] * len(POLICIES), [0] * len(POLICIES)
    for window in walked(name):
        instants, ends = window.look_up(cron)
        if not instants and not ends:
            continue
        # most windows look the same under all policies
        odd = ends or any(len(same) > 1 for same in instants)
        same = None if odd else ticks(instants, ends, *POLICIES[0])
        same_number = None if odd else digest(same)
        for at, policies in enumerate(POLICIES):
            found = ticks(instants, ends, *policies) if odd else same
            if found:
                number = digest(found) if odd else same_number
                counts[at] += len(found)
                numbers[at] = (numbers[at] * 3935559000370003845 + number) % 2**64
    return list(zip(counts, numbers))


def all_ticks(name, text, gap, fold):
    """For each window its ticks."""
    cron = cron_of(text)
    return [ticks(*window.look_up(cron), gap, fold) for window in walked(name)]


def zones():
    """The names of time zones. Those with the same data are together."""
    data = {}
    for name in sorted(zoneinfo.available_timezones()):
        paths = (os.path.join(folder, name) for folder in zoneinfo.TZPATH)
        path = next((path for path in paths if os.path.isfile(path)), None)
        if path:
            with open(path, "rb") as file:
                data.setdefault(file.read(), []).append(name)
    return list(data.values())


def answer(question, *words):
    """What a line of JSON asks for."""
    if question == "expressions":
        return expressions()
    if question == "zones":
        return zones()
    if question == "windows":
        (name,) = words
        found = [window[:2] for window in windows(name)]
        start = offset(zoneinfo.ZoneInfo(name), FIRST)
        return {"first": FIRST, "last": LAST, "offset": start, "transitions": transitions(name), "windows": found}
    if question == "digests":
        zone, texts = words
        return [digests(zone, text) for text in texts]
    if question == "ticks":
        return all_ticks(*words)
    raise ValueError(f"no such question: {question}")


def tell(zone, text, gap="shift", fold="first"):
    """Prints all ticks."""
    zone_info = zoneinfo.ZoneInfo(zone)
    for found in all_ticks(zone, text, gap, fold):
        for instant, kind in found:
            print(instant, datetime.fromtimestamp(instant, zone_info).isoformat(), KINDS[kind])


def main(words):
    """See above."""
    if words == ["expressions"]:
        print("\n".join(expressions()))
    elif words[:1] == ["ticks"] and len(words) in (3, 5):
        tell(*words[1:])
    elif words == ["serve"]:
        for line in sys.stdin:
            print(json.dumps(answer(*json.loads(line)), separators=(",", ":")), flush=True)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
