"""A cleaner: logged blocks go home when nobody has asked for anything for a while, or half of all log space is in use.

    python examples/at_rest.py
"""

import nearhead
from nearhead.policies import Cleaner


class AtRest(Cleaner):
    def __init__(self, after_s=0.5):
        self.after_ns = int(after_s * 1e9)

    def home(self, view):
        if view.fill_pct() >= 50:
            return "room"
        if view.is_quiet and view.idle_for_ns >= self.after_ns:
            return "idle"
        return None

    def home_wake_ns(self, view):
        return view.last_request_at_ns + self.after_ns


def main():
    # Two bursts of writes with ten seconds between them.
    bursts = [
        nearhead.Request(at_s=start + place * 0.02, offset_bytes=place * 7919 % 10_000 * (1 << 20), len_bytes=4096)
        for start in (0, 20)
        for place in range(500)
    ]
    trace = nearhead.Trace.from_requests(bursts)
    for after_s in (0.1, 1, 100):
        result = nearhead.Experiment("st3146855fc", "mlb", trace, cleaner=AtRest(after_s)).run()
        print(f"after {after_s:>5} s: {result.counters['checkpointed_bytes'] >> 10:>6} KiB went home, {result.workloads[0].latency}")


if __name__ == "__main__":
    main()
