"""Numbers to try in the place of open sizes: large ones, small ones, the example, as far as its conditions allow."""

import math
import random

from .supposing import within

STEP = 720  # what divides an example size divides the number tried in its place, if it divides this
REACHES = ((STEP, 2, 13), (48, 6, 20))  #: (step, least and most multiples of it) that are added to an example size


def trials(env):
    """Large numbers, alike the example in what divides them; small ones of any kind; the example."""
    free = [s for s in (*env.var_to_val, *env._stand_in) if s not in env.replacements and s not in env.supposed]
    examples = {s: env.var_to_val.get(s, env._stand_in.get(s)) for s in (*env.var_to_val, *env._stand_in)}
    rng = random.Random(len(free))
    found = []
    step, least, most = env.reach
    step = math.lcm(step, *(m for m in env.moduli if 0 < m < 4096))
    while free and len(found) < 6 and step:
        for k in range(40):
            kept = env._base if not found and k < 20 else {}
            values = _drawn(env, free, examples, step, rng, least, most, kept=kept)
            if values is not None and values not in found:
                found.append(values)
                if len(found) >= 6:
                    break
        step = step // (2 if step % 2 == 0 else 3)
    small = []
    for reach in (3, 3, 6, 12) * 4 if free else ():
        values = _drawn(env, free, examples, 1, rng, 0, reach, near=True)
        if values is not None and values not in small:
            small.append(values)
    return [*found, *small[:6], _completed(env, examples)]


def _drawn(env, free, examples, step, rng, least, most, near=False, kept=()):
    """One assignment that holds, or None: example + step * k; near: from the least size that a symbol may have."""
    values = {}
    for s in free:
        low, high = within(env, s)
        start = min(max(low, 2), high) if near else examples[s]
        number = start + step * rng.randint(least, most)
        if s in kept:
            values[s] = kept[s]
            continue
        values[s] = number if number <= high else _within(max(low, min(2, high)), high, start, step, rng)
    if not near and len(set(values.values())) < len(values):
        return None
    values = _completed(env, values)
    return values if values is not None and env.holds(values) else None


def _within(low, high, start, step, rng):
    """A number of a bounded range, alike the example in what divides it as far as there is a choice."""
    while step > 1 and (high - start) // step + (start - low) // step < 3:
        step //= next((n for n in (5, 3, 2) if step % n == 0), step)
    return start + step * rng.randint(-((start - low) // step), (high - start) // step)


def fresh(env, seed):
    """Up to three assignments near the example that the conditions allow, other ones for each seed."""
    rng = random.Random(seed)
    example = env.trials()[-1]
    free = [s for s in example if s not in env.replacements and s not in env.supposed]
    found = []
    for reach in (3, 3, 9, 9, 40, 40) if free else ():
        values = {}
        for s in free:
            low, high = within(env, s)
            values[s] = min(max(example[s] + rng.randint(-reach, reach), max(low, min(2, high), -reach)), high)
        values = _completed(env, values)
        if values is not None and values not in found and env.holds(values):
            found.append(values)
    return found[:3]


def _completed(env, values):
    """With the numbers of settled symbols."""
    values = dict(values)
    for s, expr in env.replacements.items():
        try:
            values[s] = expr.evaluate(values)
        except KeyError:
            return None
    for s, expr in env.supposed.items():
        if s in env._stand_in and s not in env.replacements and expr.free_symbols <= values.keys():
            values[s] = expr.evaluate(values)
    return values
