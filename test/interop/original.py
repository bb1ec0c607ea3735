"""The original, as a child of the tests: one JSON object a line, in and out.

A request has `id`, `do` and what that needs; the answer has the same `id` and either `ok` or `error`. A client that is
gated tells every call to DynamoDB before it is sent and after it was answered (`call`), and waits for `go` each time.
"""

import asyncio
import dataclasses
import enum
import json
import logging
import sys
import time
import warnings
from datetime import timedelta

import zae_limiter
import zae_limiter.repository
from aiobotocore.session import get_session
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository, ScheduleEntry
from zae_limiter.version import CURRENT_SCHEMA_VERSION


class Clock:
    """Stands where the package expects the module `time`, and tells the test's time once there is one."""

    def __init__(self):
        self.now_ms = None

    def __getattr__(self, name):
        return getattr(time, name)

    def time(self):
        return time.time() if self.now_ms is None else self.now_ms / 1000

    def monotonic(self):
        return time.monotonic() if self.now_ms is None else self.now_ms / 1000

    def now(self):
        return int(time.time() * 1000) if self.now_ms is None else self.now_ms


CLOCK = Clock()


def govern_time():
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "zae_limiter" and getattr(module, "time", None) is time:
            module.time = CLOCK
    # A float of seconds does not bring every millisecond back.
    Repository._now_ms = lambda _: CLOCK.now()


def share_session():
    """All clients read the descriptions of the services once, instead of once each."""
    session = get_session()
    zae_limiter.repository.get_session = lambda: session


class Client:
    """A repository and a limiter on it, with caches of their own: what a process of the original has."""

    def __init__(self, name, repository, driver):
        self.name = name
        self.repository = repository
        self.limiter = RateLimiter(repository=repository)
        self.is_gated = False
        self.driver = driver

    async def listen(self):
        self.repository._rejection_cache._clock = CLOCK.monotonic
        sdk = await self.repository._get_client()
        send = sdk._make_api_call

        async def told(operation, arguments):
            await self._tell(operation, "before")
            try:
                return await send(operation, arguments)
            finally:
                await self._tell(operation, "after")

        sdk._make_api_call = told

    async def _tell(self, operation, when):
        if self.is_gated:
            await self.driver.ask({"client": self.name, "operation": operation, "when": when})


class Driver:
    def __init__(self):
        self.clients = {}
        self.leases = {}
        self.waiting = {}
        self.count = 0

    def number(self):
        self.count += 1
        return self.count

    async def ask(self, event):
        number = self.number()
        self.waiting[number] = asyncio.get_running_loop().create_future()
        say({"call": number, **event})
        await self.waiting[number]

    async def serve(self):
        reader = asyncio.StreamReader(limit=2**24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        tasks = set()
        while line := await reader.readline():
            request = json.loads(line)
            if "go" in request:
                self.waiting.pop(request["go"]).set_result(None)
                continue
            task = asyncio.create_task(self.answer(request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        for client in self.clients.values():
            await client.repository.close()

    async def answer(self, request):
        number, name = request.pop("id"), request.pop("do")
        try:
            value = await getattr(self, f"do_{name}")(**request)
            say({"id": number, "ok": plain(value)})
        except Exception as error:
            say({"id": number, "error": told_error(error)})

    async def do_version(self):
        return zae_limiter.__version__

    async def do_clock(self, ms):
        CLOCK.now_ms = ms

    async def do_create_table(self, table, region, endpoint, lambda_version):
        """The bare table. With a version of its Lambda functions, the record that deploying them would leave."""
        repository = Repository(table, region, endpoint, _skip_deprecation_warning=True)
        await repository.create_table()
        if lambda_version is not None:
            by = f"client:{zae_limiter.__version__}"
            await repository.set_version_record(CURRENT_SCHEMA_VERSION, lambda_version, updated_by=by)
        await repository.close()

    async def do_open(self, how, table, region, endpoint, namespace, options):
        opening = Repository.open if how == "open" else Repository.connect
        repository = await opening(namespace, stack=table, region=region, endpoint_url=endpoint, **options)
        return await self.add(repository)

    async def do_scope(self, client, namespace):
        return await self.add(await self.clients[client].repository.namespace(namespace))

    async def add(self, repository):
        name = f"client-{self.number()}"
        client = self.clients[name] = Client(name, repository, self)
        await client.listen()
        return name

    async def do_close(self, client):
        await self.clients.pop(client).repository.close()

    async def do_gate(self, client, on):
        self.clients[client].is_gated = on

    async def do_call(self, client, on, method, arguments, named):
        target = getattr(self.clients[client], on)
        return await getattr(target, method)(*given(arguments), **given(named))

    async def do_acquire(self, client, request):
        context = self.clients[client].limiter.acquire(**given(request))
        lease = await context.__aenter__()
        name = f"lease-{self.number()}"
        self.leases[name] = (context, lease)
        return {"lease": name, "bypassed": lease.bypassed, "overdrawn": lease.overdrawn, "degraded": lease.degraded}

    async def do_lease(self, lease, method, amounts):
        await getattr(self.leases[lease][1], method)(**amounts)

    async def do_end(self, lease):
        context, _ = self.leases.pop(lease)
        await context.__aexit__(None, None, None)

    async def do_fail(self, lease):
        """Leaves the lease with an exception of the caller's, which comes back to the caller."""
        context, _ = self.leases.pop(lease)
        error = BodyFailed()
        try:
            await context.__aexit__(BodyFailed, error, None)
        except BodyFailed:
            pass

    async def do_admits(self, client, request, times):
        """How many of so many requests are admitted, one after the other."""
        admitted = 0
        for _ in range(times):
            admitted += await self.admits(client, given(request))
        return admitted

    async def do_saturate(self, clients, request, seconds):
        """All ask without a pause, but for the wait that they are told. When each of them was admitted."""
        until = time.monotonic() + seconds
        admitted = []

        async def busy(client):
            while time.monotonic() < until:
                try:
                    async with self.clients[client].limiter.acquire(**given(request)):
                        admitted.append(int(time.time() * 1000))
                except RateLimitExceeded as refused:
                    await asyncio.sleep(max(0.001, min(refused.retry_after_seconds, 1)))

        await asyncio.gather(*(busy(client) for client in clients))
        return admitted

    async def admits(self, client, request):
        try:
            async with self.clients[client].limiter.acquire(**request) as lease:
                if lease.degraded:
                    raise RuntimeError("admitted because the store did not answer")
            return True
        except RateLimitExceeded:
            return False


class BodyFailed(Exception):
    pass


def given(value):
    """What a request names, as the package wants it."""
    if isinstance(value, list):
        return [given(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$limit" in value:
        return limit_of(**value["$limit"])
    return {key: given(one) for key, one in value.items()}


def limit_of(schedule=(), resets=(), reset_after_seconds=None, **terms):
    return Limit(
        **terms,
        schedule=tuple(ScheduleEntry(**entry) for entry in schedule),
        reset_schedule=tuple(ScheduleEntry.reset(**entry) for entry in resets),
        reset_after=None if reset_after_seconds is None else timedelta(seconds=reset_after_seconds),
    )


def plain(value):
    if isinstance(value, Limit):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def told_error(error):
    told = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, RateLimitExceeded):
        told["retryAfterMs"] = error.retry_after_seconds * 1000
    return told


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    govern_time()
    share_session()
    asyncio.run(Driver().serve())
