"""Acquires of two limits with the original, on a table that is there.

Told on its input for how long to go on, it tells what came of it: a JSON object a line.
"""

import asyncio
import json
import resource
import sys
import time

from zae_limiter import Limit, RateLimiter, Repository

CAPACITY = 1_000_000_000
TOKENS = {"rpm": 1, "tpm": 500}
KEYS = [f"original-{i}" for i in range(256)]


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Units:
    """Counts the write units that answers say they cost."""

    def __init__(self):
        self.written = 0.0

    def listen(self, client):
        events = client.meta.events
        for operation in ("UpdateItem", "PutItem", "TransactWriteItems"):
            events.register(f"provide-client-params.dynamodb.{operation}", self.ask)
            events.register(f"after-call.dynamodb.{operation}", self.hear)

    def ask(self, params, **_):
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def hear(self, parsed, **_):
        consumed = parsed.get("ConsumedCapacity", [])
        for one in consumed if isinstance(consumed, list) else [consumed]:
            self.written += one["CapacityUnits"]


async def main(table, endpoint, concurrency):
    repository = await Repository.connect(stack=table, region="us-east-1", endpoint_url=endpoint)
    units = Units()
    units.listen(await repository._get_client())
    limiter = RateLimiter(repository=repository)
    limits = [Limit.custom(name, capacity=CAPACITY, refill_amount=60, refill_period_seconds=3600) for name in TOKENS]
    await limiter.set_resource_defaults("original", limits)
    calls = 0
    print(json.dumps("ready"), flush=True)

    async def acquire(i):
        async with limiter.acquire(KEYS[i % len(KEYS)], "original", consume=TOKENS):
            pass

    for line in iter(sys.stdin.readline, ""):
        first, written, cpu = calls, units.written, cpu_seconds()
        told = json.loads(line)
        least = calls + told["calls"]
        until = time.monotonic() + told["milliseconds"] / 1000

        async def caller():
            nonlocal calls
            while calls < least or time.monotonic() < until:
                calls += 1
                await acquire(calls)

        await asyncio.gather(*(caller() for _ in range(concurrency)))
        made = calls - first
        microseconds = (cpu_seconds() - cpu) * 1_000_000 / made
        answer = {"calls": made, "microseconds": microseconds, "writeUnits": (units.written - written) / made}
        print(json.dumps(answer), flush=True)
    await repository.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
