"""The expressions that are tried: some by hand, the rest by chance, always the same."""

import datetime
import random

from cron import Cron

COUNT = 200

# The first ten are part of every sample.
BY_HAND = """
30 2 * * *
0 0 * * *
*/20 2,3 * * *
30 1 * * SUN
15 */2 * * *
0 3 1-7 * SUN
0-59/7 0-4 L * SUNL
0 2 */2 * SUN
45 23 * * SAT
0 * * * *
0 1 * * *
* * * * *
0 2 * * *
0 3 * * *
0 4 * * *
30 0 * * *
30 1 * * *
59 1 * * *
59 23 * * *
1 0 * * *
15 2 * * *
29 2 * * *
44 0 * * *
0,30 2 * * *
30 2,3 * * *
0 2,3 * * *
*/15 1-3 * * *
*/30 * * * *
15 * * * *
5,35 */3 * * *
* 2 * * SUN
*/5 0-3 * 3,10 SUN
*/10 1,2 * MAR-APR SUN
10-50/20 22-23 * * *
0 0-6/2 * * *
0 9 * * MON-FRI
0 9 1 * MON
30 2 29 2 *
0 0 1 1 *
0 0 1 * *
59 23 L * *
30 2 L * *
30 2 LW * *
0 3 15W * *
0 1 1W 4,10 *
30 1 31 * *
30 1 31W * *
0 2 29W,30W * *
0 2 24-31 3,10 SUN
30 2 * 3 7
30 2 * 10 0
30 1 * * SUNL
30 2 * * 0L
0 1 * * SUN#1
30 2 * MAR SUN#2
30 2 * 4 SUN#1,FRIL
0 0 * * FRI#4
0 0 * * 5L
0 0 * * FRI-SUN
0 2 * * SAT-SUN
0 3 * * 6-7
15 0 * * 0-2
0 0 31 12 FRI
0 12 30 12 *
30 0 */3 * 1-5
0 2 */5 * */3
30 3 1,15,L * *
45 2 1-7 * *
20 1 13 * FRI
0 0 * NOV sun#1
0 3 LW,15 */2 *
*/45 0-5 * jan,jul,oct *
"""


class Chance:
    """Choices that are the same with every version of Python: only `random()` promises that."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def between(self, low, high):
        """A number, both ends included."""
        return low + int(self.source.random() * (high - low + 1))

    def of(self, things):
        """One of them."""
        return things[self.between(0, len(things) - 1)]

    def span(self, low, high):
        """A range."""
        start = self.between(low, high - 1)
        return f"{start}-{self.between(start + 1, high)}"

    def several(self, low, high, count):
        """A list."""
        return ",".join(str(self.between(low, high)) for _ in range(count))


def minute(chance):
    """The ends of hours, halves and quarters are most likely: clocks are changed there."""
    kind = chance.between(1, 20)
    if kind <= 9:
        return str(chance.of([0, 0, 1, 15, 30, 30, 45, 59]))
    if kind <= 12:
        return str(chance.between(0, 59))
    if kind <= 15:
        return chance.several(0, 59, 2)
    if kind <= 18:
        return "*/" + str(chance.of([7, 10, 13, 15, 20, 25, 30, 40]))
    return chance.span(0, 59) + "/" + str(chance.of([5, 7, 11, 20]))


def hour(chance):
    """The first hours of the day are most likely: clocks are changed then."""
    kind = chance.between(1, 20)
    if kind <= 9:
        return str(chance.between(0, 4))
    if kind <= 11:
        return str(chance.between(0, 23))
    if kind <= 14:
        return chance.several(0, 4, 2)
    if kind <= 16:
        return chance.span(0, 6)
    if kind <= 18:
        return "*/" + str(chance.of([2, 3, 5]))
    return chance.span(0, 23) + "/" + str(chance.of([2, 3])) if kind == 19 else "*"


def day(chance):
    """A day of the month."""
    kind = chance.between(1, 20)
    if kind <= 9:
        return "*"
    if kind <= 11:
        return str(chance.between(1, 31))
    if kind <= 13:
        return chance.several(1, 31, 3)
    if kind <= 15:
        return chance.span(1, 31)
    if kind <= 17:
        return "*/" + str(chance.of([2, 3, 5, 7]))
    return chance.of(["L", "LW", f"{chance.between(1, 28)}W", f"{chance.between(1, 28)},L"])


def month(chance):
    """A month."""
    names = ["MAR", "APR", "SEP", "OCT", "NOV", "3,10", "4,10", "3,11", "MAR-MAY", "9-11"]
    kind = chance.between(1, 20)
    if kind <= 12:
        return "*"
    return chance.of(names) if kind <= 18 else "*/" + str(chance.of([2, 3, 5]))


def weekday(chance):
    """A day of the week. Most clocks are changed on a Sunday."""
    kind = chance.between(1, 20)
    if kind <= 9:
        return "*"
    if kind <= 13:
        return chance.of(["SUN", "0", "7", "SAT,SUN", "SAT-SUN", "FRI-SUN", "5-7", "SUN-WED"])
    if kind <= 16:
        return chance.of(["FRI", "MON-FRI", "THU-SAT", "1,3,5", "*/2", "1-6/2"])
    return chance.of(["SUN#1", "SUN#2", "0#3", "SUN#4", "SUNL", "0L", "FRIL", "FRI#1,SUN#5", "5L,SUN#1"])


def happens(text):
    """Whether there is such a date at all."""
    cron = Cron(text)
    start = datetime.date(2000, 1, 1).toordinal()
    return any(cron.has_date(ordinal) for ordinal in range(start, start + 4 * 366))


def expressions():
    """All of them, in order."""
    found = BY_HAND.strip().splitlines()
    chance = Chance(1970)
    while len(found) < COUNT:
        text = " ".join(field(chance) for field in (minute, hour, day, month, weekday))
        if text not in found and happens(text):
            found.append(text)
    return found
