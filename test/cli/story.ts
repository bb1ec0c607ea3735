import assert from "node:assert/strict";
import { here, type RanHere } from "./in-process.ts";

// biome-ignore lint/suspicious/noExplicitAny: what a command prints is looked at piece by piece.
type Json = any;

/** The slowest drip, so that what is left does not depend on how busy the machine is. */
export const SLOW = "tpm:1/day:20k";

/** Runs with `--json`; answers with what stdout says. */
async function json(args: readonly string[], code: number): Promise<Json> {
  const ran = await here([...args, "--json"]);
  assert.equal(ran.code, code, `${args.join(" ")}: ${ran.stdout}${ran.stderr}`);
  assert.equal(ran.stderr, "", `${args.join(" ")}: stderr`);
  return JSON.parse(ran.stdout);
}

/** The same for an error: stdout stays empty, and stderr is one line. */
async function fault(args: readonly string[], exitCode: number, code: string): Promise<string> {
  const ran: RanHere = await here([...args, "--json"]);
  assert.deepEqual([ran.code, ran.stdout], [exitCode, ""], `${args.join(" ")}: ${ran.stdout}${ran.stderr}`);
  assert.equal(ran.stderr.trimEnd().split("\n").length, 1, ran.stderr);
  const { error } = JSON.parse(ran.stderr);
  assert.deepEqual([error.code, error.exitCode], [code, exitCode], `${args.join(" ")}: ${ran.stderr}`);
  return error.message;
}

/** The daily work of an operator, on whatever store: every command, what it answers, and what it refuses. */
export async function operatorStory(where: readonly string[], store: string): Promise<void> {
  await storeStory(where, store);
  await dailyStory(where, /^[a-zA-Z0-9].*@/);
}

/** How a store comes to be. */
async function storeStory(where: readonly string[], store: string): Promise<void> {
  const at = (line: string) => [...line.split(" "), ...where];
  assert.match(await fault(at("entity list"), 4, "store_not_found"), /init/);
  assert.equal((await json(at("doctor"), 1)).checks[0].ok, false);
  assert.deepEqual(await json(at("init --dry-run"), 0), { store, created: true, dryRun: true });
  assert.deepEqual(await json(at("init --yes"), 0), { store, created: true });
  assert.deepEqual(await json(at("init"), 0), { store, created: false });
  const { ok, checks } = await json(at("doctor"), 0);
  assert.deepEqual(
    // A server is asked for more.
    [ok, checks.map(({ name }: { name: string }) => name).slice(0, 5)],
    [true, ["store", "namespace", "version", "clock", "permissions"]],
  );
  assert.equal((await json(at("version"), 0)).store, store);
}

/** Everything after that, on a store or over a service: the same answers and the same exit codes. */
export async function dailyStory(where: readonly string[], principal: RegExp): Promise<void> {
  const at = (line: string) => [...line.split(" "), ...where];
  // Who is limited, and by what.
  assert.match(await fault(at("access set disabled -r gpt-4"), 4, "resource_not_found"), /--allow-unknown/);
  const { changed, ...defaults } = await json(at(`resource set-defaults gpt-4 -l rpm:1/day:100 -l ${SLOW}`), 0);
  assert.equal(changed, true);
  assert.deepEqual([defaults.resource, defaults.limits.length, defaults.limits[1].capacity], ["gpt-4", 2, 20_000]);
  assert.deepEqual(await json(at("resource get-defaults gpt-4"), 0), defaults);
  assert.match(await fault(at("resource get-defaults gpt-5"), 4, "limits_not_found"), /gpt-4/);
  const dry = await json(at("entity create proj-1 --dry-run"), 0);
  assert.deepEqual([dry.id, dry.dryRun], ["proj-1", true]);
  await fault(at("entity show proj-1"), 4, "entity_not_found");
  assert.equal(
    (await json(at("entity create proj-1 --name Production --meta plan=gold --meta team=a"), 0)).name,
    "Production",
  );
  await fault(at("entity create proj-1"), 1, "entity_exists");
  await fault(at("entity create proj-1 --dry-run"), 1, "entity_exists");
  const kept = await json(at("entity create proj-1 --name Other --if-absent"), 0);
  assert.deepEqual([kept.name, kept.version], ["Production", 1], "a second start leaves it alone");
  assert.match(await fault(at("entity create key-1 --parent prj-1"), 4, "parent_not_found"), /did you mean proj-1/);
  // A named parent is charged unless it is said otherwise.
  const key = await json(at("entity create key-1 --parent proj-1"), 0);
  assert.deepEqual([key.parentId, key.cascade, key.version], ["proj-1", true, 1]);
  assert.equal((await json(at("entity create key-2 --parent proj-1 --no-cascade"), 0)).cascade, false);
  assert.deepEqual(await json(at("entity show key-1"), 0), key);
  assert.match(await fault(at("entity show kye-1"), 4, "entity_not_found"), /did you mean key-1/);
  const updated = await json(at("entity update proj-1 --meta plan=silver --unset-meta team --if-version 1"), 0);
  assert.deepEqual([updated.metadata, updated.version], [{ plan: "silver" }, 2]);
  await fault(at("entity update proj-1 --name x --if-version 1"), 1, "entity_changed");
  await fault(at("entity update proj-1"), 2, "usage");
  await fault(at("entity update proj-1 --parent key-1 --dry-run"), 2, "entity_cycle");
  await fault(at("entity update proj-1 --parent key-1"), 2, "entity_cycle");
  assert.equal((await json(at("entity update key-2 --no-parent"), 0)).parentId, undefined);
  const ids = async (line: string) =>
    (await json(at(line), 0)).items.map((item: Json) =>
      item.status === undefined ? (item.id ?? item.resource) : item.name,
    );
  assert.deepEqual(await ids("entity list"), ["key-1", "key-2", "proj-1"]);
  const first = await json(at("entity list --max 2"), 0);
  assert.equal(first.items.length, 2);
  assert.deepEqual((await json([...at("entity list"), "--cursor", first.cursor], 0)).items.length, 1);
  const lines = (await here(at("entity list --ndjson"))).stdout.trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).id),
    ["key-1", "key-2", "proj-1"],
  );
  assert.deepEqual(await ids("entity children proj-1"), ["key-1"]);
  await fault(at("entity children nobody"), 4, "entity_not_found");

  assert.match(
    await fault(at("entity set-limits kye-1 -r gpt-4 -l rpm:5"), 4, "entity_not_found"),
    /did you mean key-1/,
  );
  await fault(at("entity set-limits key-1 -r gtp-4 -l rpm:5"), 4, "resource_not_found");
  await fault(at("entity set-limits key-1 -r gpt-4 -l rpm:5x"), 2, "usage");
  await fault(at("entity get-limits key-1 -r gpt-4"), 4, "limits_not_found");
  const set = await json(at(`entity set-limits key-1 -r gpt-4 -l rpm:1/day:50 -l ${SLOW} --soft rpm`), 0);
  const { changed: isSet, ...limits } = set;
  assert.equal(isSet, true);
  assert.deepEqual([limits.entityId, limits.resource, limits.limits[0].soft], ["key-1", "gpt-4", true]);
  assert.deepEqual(await json(at("entity get-limits key-1 -r gpt-4"), 0), limits);
  assert.deepEqual((await json(at("entity set-limits key-1 -l x:1 --dry-run"), 0)).dryRun, true);
  assert.deepEqual((await json(at("entity list-limits key-1"), 0)).items, [
    { resource: "gpt-4", limits: limits.limits },
  ]);
  assert.deepEqual((await json(at("entity list --with-limits gpt-4"), 0)).items, [
    { entityId: "key-1", resource: "gpt-4", limits: limits.limits },
  ]);
  assert.deepEqual(await ids("resource list --with-entity-limits"), ["gpt-4"]);
  await fault(at("entity delete-limits key-1 -r gpt-4"), 2, "confirmation_required");
  assert.deepEqual(await json(at("entity delete-limits key-1 -r gpt-4 --yes"), 0), {
    entityId: "key-1",
    resource: "gpt-4",
    deleted: true,
  });
  await fault(at("entity delete-limits key-1 -r gpt-4 --yes"), 4, "limits_not_found");
  assert.deepEqual(await ids("resource list"), ["gpt-4"]);
  await fault(at("system get-defaults"), 4, "limits_not_found");
  await fault(at("system set-defaults"), 2, "usage");
  assert.equal((await json(at("system set-defaults -l rpm:10 --on-unavailable allow"), 0)).onUnavailable, "allow");
  assert.equal((await json(at("system set-defaults --on-unavailable block"), 0)).limits.length, 1);
  assert.deepEqual((await json(at("system get-defaults"), 0)).onUnavailable, "block");
  assert.deepEqual(await json(at("system delete-defaults --yes"), 0), { deleted: true });

  assert.deepEqual(await json(at("access show -e key-1 -r gpt-4"), 0), {
    entityId: "key-1",
    resource: "gpt-4",
    access: "inherit",
  });
  assert.match(await fault(at("access set disabled -e kye-1 -r gpt-4"), 4, "entity_not_found"), /did you mean key-1/);
  await fault(at("access set disabled"), 2, "usage");
  await json(at("access set disabled -e key-1 -r gpt-4"), 0);
  const words = await fault(at("acquire key-1 gpt-4 -c tpm=1"), 1, "resource_disabled");
  assert.equal(await fault(at("acquire key-1 gpt-4 -c tpm=1 --dry-run"), 1, "resource_disabled"), words);
  assert.equal((await json(at("explain key-1 gpt-4 --exit-code"), 1)).outcome, "disabled");
  assert.equal((await json(at("entity clear-disabled key-1 --resource gpt-4"), 0)).access, "inherit");
  assert.deepEqual(await json(at("cascade set off -e key-1"), 0), { entityId: "key-1", cascade: false });
  assert.equal((await json(at("cascade show -e key-1"), 0)).cascade, false);
  assert.equal((await json(at("entity clear-cascade key-1"), 0)).cascade, "inherit");

  // Tokens.
  assert.match(await fault(at("acquire key-9 gpt-4 -c tpm=1"), 4, "entity_not_found"), /did you mean key-1/);
  await fault(at("acquire key-1 gpt-9 -c tpm=1"), 4, "resource_not_found");
  await fault(at("acquire key-1 gpt-4"), 2, "consume_empty");
  await fault(at("acquire key-1 gpt-4 -c tpn=1"), 2, "limit_unknown");
  assert.equal((await json(at("acquire key-1 gpt-4 -c tpm=1 --dry-run"), 0)).dryRun, true);
  assert.deepEqual((await json(at("bucket list -r gpt-4"), 0)).items, []);
  const granted = await json(at("acquire key-1 gpt-4 -c rpm=1 -c tpm=15k"), 0);
  assert.deepEqual([granted.ok, granted.consumed, granted.status], [true, { rpm: 1, tpm: 15_000 }, "settled"]);
  assert.equal((await json(at("acquire key-1 gpt-4 -c tpm=5000 --give-back"), 0)).ok, true);
  const refused = await json(at("acquire key-1 gpt-4 -c tpm=9000"), 1);
  assert.deepEqual([refused.ok, refused.primary.available, refused.retryAfterMs > 0], [false, 5_000, true]);
  for (const how of ["", " --dry-run"]) {
    await fault(at(`acquire key-1 gpt-4 -c tpm=20001${how}`), 2, "amount_above_capacity");
  }
  assert.equal((await json(at("acquire key-9 gpt-4 -c tpm=1 --allow-unknown"), 0)).ok, true);
  const available = await json(at("available key-1 gpt-4 -c tpm=9000"), 0);
  assert.deepEqual(
    available.items.map((item: Json) => [item.entityId, item.limit, item.available]),
    [
      ["key-1", "rpm", 99],
      ["key-1", "tpm", 5_000],
      ["proj-1", "rpm", 99],
      ["proj-1", "tpm", 5_000],
    ],
  );
  assert.ok(available.retryAfterMs > 0);
  await json(at("available key-1 gpt-4 -c tpm=9000 --exit-code"), 1);
  await fault(at("available key-1 nothing"), 4, "limits_missing");
  const explained = await json(at("explain key-1 gpt-4 -c tpm=9000"), 0);
  assert.deepEqual([explained.outcome, explained.levels.length], ["refused", 2]);
  assert.match(
    (await here(at("explain key-1 gpt-4 -c tpm=9000"))).stdout,
    /^key-1 may take 5000 more tpm now; 9000 fit in \d.*, because /,
  );
  assert.equal((await json(at("explain key-1 gpt-4 -c tpm=99000"), 0)).retryAfterMs, null);
  const bucket = await json(at("bucket show key-1 gpt-4"), 0);
  assert.deepEqual([bucket.resource, bucket.entityId, bucket.limits[1].available], ["gpt-4", "key-1", 5_000]);
  const rows = (await json(at("bucket list -r gpt-4"), 0)).items.map((item: Json) => [
    item.entityId,
    item.limit,
    item.available,
  ]);
  assert.deepEqual(rows.slice(0, 2), [
    ["key-1", "rpm", 99],
    ["key-1", "tpm", 5_000],
  ]);
  const capacity = await json(at("resource capacity gpt-4 tpm"), 0);
  assert.deepEqual([capacity.limit, capacity.entities.length], ["tpm", 3]);
  const topUp = "bucket top-up key-1 gpt-4 -a tpm=1000 --idempotency-key order-1";
  assert.deepEqual((await json(at(`${topUp} --dry-run`), 0)).amounts, { tpm: 1_000 });
  assert.deepEqual(await json(at(topUp), 0), {
    entityId: "key-1",
    resource: "gpt-4",
    amounts: { tpm: 1_000 },
    repeated: false,
  });
  assert.equal((await json(at(topUp), 0)).repeated, true);
  assert.deepEqual((await json(at("entity top-up key-1 -r gpt-4 -a tpm:500"), 0)).amounts, { tpm: 500 });
  assert.equal((await json(at("bucket reset key-1 gpt-4 -l tpm"), 0)).repeated, false);
  const charge = "bucket charge key-1 gpt-4 -a tpm=500 --idempotency-key report-1";
  assert.deepEqual((await json(at(`${charge} --dry-run`), 0)).amounts, { tpm: 500 });
  assert.deepEqual(await json(at(charge), 0), {
    ...{ entityId: "key-1", resource: "gpt-4", amounts: { tpm: 500 } },
    repeated: false,
  });
  assert.equal((await json(at(charge), 0)).repeated, true);
  assert.deepEqual((await json(at("bucket give-back key-1 gpt-4 -a tpm=900 --dry-run"), 0)).amounts, { tpm: 500 });
  assert.deepEqual((await json(at("bucket give-back key-1 gpt-4 -a tpm=900"), 0)).amounts, { tpm: 500 });
  await fault(at("bucket charge key-1 gpt-4 -a tpn=1"), 2, "limit_unknown");
  await fault(at("bucket reset key-1 gpt-4 -l tpn"), 2, "limit_unknown");
  await fault(at("bucket reset key-1 gpt-4 -l tpn --dry-run"), 2, "limit_unknown");
  const looked = (await json(at("watch -e key-1 --once --interval 10ms"), 0)).items;
  assert.deepEqual(Object.keys(looked[0]), [
    "atMs",
    "entityId",
    "resource",
    "limit",
    "available",
    "capacity",
    "takenPerSecond",
    "blocked",
    "retryAfterMs",
  ]);
  assert.deepEqual([looked[1].limit, looked[1].available, looked[1].blocked], ["tpm", 20_000, false]);

  // Looking back.
  const events = (await json(at("audit list -e key-1"), 0)).items;
  assert.ok(events.length > 5);
  assert.match(events[0].principal, principal);
  assert.deepEqual(
    (await json(at("audit list -r gpt-4"), 0)).items.map((event: Json) => event.action),
    ["limits_set"],
  );
  assert.equal((await json(at("audit list --system"), 0)).items.length, 3);
  assert.equal((await json(at("audit list --max 2"), 0)).items.length, 2);
  assert.deepEqual((await json(at("audit list --from 2999-01-01"), 0)).items, []);

  // Tenants.
  assert.deepEqual(await ids("namespace register tenant-a tenant-b"), ["tenant-a", "tenant-b"]);
  assert.deepEqual(await ids("namespace list"), ["default", "tenant-a", "tenant-b"]);
  assert.match(await fault(at("entity list -N tenant-c"), 4, "namespace_not_found"), /did you mean tenant-/);
  assert.deepEqual(await ids("-N tenant-a entity list"), []);
  assert.match(await fault(at("namespace show tenant-c"), 4, "namespace_not_found"), /did you mean tenant-/);
  const { id } = await json(at("namespace show tenant-b"), 0);
  await fault(at(`namespace purge ${id} --yes`), 1, "namespace_active");
  await fault(at("namespace delete default --yes"), 2, "namespace_default");
  assert.equal((await json(at("namespace delete tenant-b --dry-run"), 0)).status, "deleted");
  assert.equal((await json(at("namespace delete tenant-b --yes"), 0)).status, "deleted");
  assert.deepEqual(await ids("namespace orphans"), ["tenant-b"]);
  assert.equal((await json(at(`namespace recover ${id}`), 0)).status, "active");
  await json(at("namespace delete tenant-b --yes"), 0);
  assert.equal((await json(at(`namespace purge ${id} --yes`), 0)).id, id);
  await fault(at(`namespace purge ${id} --yes`), 4, "namespace_not_found");

  await fault(at("entity delete proj-1 --yes"), 1, "entity_has_children");
  assert.deepEqual(await json(at("entity delete key-1 --yes"), 0), { id: "key-1", deleted: true });
  assert.deepEqual(await json(at("resource delete-defaults gpt-4 --yes"), 0), { resource: "gpt-4", deleted: true });
}

/** What was used, on a store that counts it itself. */
/** Who was refused, of commands that have ended: each wrote what it counted when it closed. */
export async function refusalStory(where: readonly string[]): Promise<void> {
  const at = (line: string) => [...line.split(" "), ...where];
  await json(at("init --yes"), 0);
  await json(at("resource set-defaults api -l rpd:1/day -l tpd:5/day"), 0);
  for (const [asked, code] of [
    ["a api -c rpd=1", 0],
    ["a api -c rpd=1", 1],
    ["a api -c rpd=1", 1],
    ["b api -c rpd=1 -c tpd=5", 0],
    ["b api -c tpd=1", 1],
  ] as const) {
    await json(at(`acquire ${asked} --allow-unknown`), code);
  }
  const { items } = await json(at("refusals list -w monthly --from 2h"), 0);
  assert.deepEqual(
    items.map(({ windowStartMs: _, ...one }: Json) => one),
    [
      { entityId: "a", resource: "api", limit: "rpd", level: "a", total: false, window: "monthly", count: 2 },
      { entityId: "b", resource: "api", limit: "tpd", level: "b", total: false, window: "monthly", count: 1 },
    ],
  );
  const first = await json(at("refusals list -w monthly --max 1"), 0);
  assert.equal(first.items.length, 1);
  const rest = await json([...at("refusals list -w monthly"), "--cursor", first.cursor], 0);
  assert.deepEqual(
    rest.items.map(({ entityId }: Json) => entityId),
    ["b"],
  );
  assert.equal((await json(at("refusals list -l tpd"), 0)).items.length, 1);
  assert.match(
    (await here(at("refusals list -e a -w monthly"))).stdout,
    /ENTITY +RESOURCE +LIMIT +OF +REFUSED\n.* a +api +rpd +a +2\n/,
  );
  const single = (await json(at("refusals log --from 2h"), 0)).items;
  assert.deepEqual(
    single.map(({ entityId, limit, requested, available, capacity }: Json) => [
      entityId,
      limit,
      requested,
      available,
      capacity,
    ]),
    [
      ["b", "tpd", 1, 0, 5],
      ["a", "rpd", 1, 0, 1],
      ["a", "rpd", 1, 0, 1],
    ],
  );
  const newest = await json(at("refusals log --max 1"), 0);
  assert.deepEqual(newest.items, single.slice(0, 1));
  assert.deepEqual((await json([...at("refusals log"), "--cursor", newest.cursor], 0)).items, single.slice(1));
  assert.deepEqual((await json(at("refusals log -e a -r api -l rpd"), 0)).items, single.slice(1));
  assert.match(
    (await here(at("refusals log -e b"))).stdout,
    /WHEN +ENTITY +RESOURCE +LIMIT +OF +ASKED +HAD +WAIT +REQUEST\n.* b +api +tpd +b +1 +0 /,
  );
  const minute = new Date(single[0].atMs).toISOString().slice(0, 16);
  const then = await json(at(`explain b api --at ${minute}Z`), 0);
  assert.deepEqual([then.outcome, then.refusals], ["past", single.slice(0, 1)]);
  // Limits that were set in that minute were not in force when it began.
  assert.equal((await json(at(`explain b api --at ${minute.slice(11)}`), 0)).atMs, then.atMs);
  const told = (await here(at(`explain b api --at ${new Date(single[0].atMs).toISOString()}`))).stdout;
  assert.match(told, /^At \d{4}-.+ UTC b goes by these limits on api:\n\nENTITY +LIMIT +FROM +SINCE +UNTIL\n/);
  assert.match(told, /Refused at \d\d:\d\d UTC:\n[\d:.]+ +tpd of b had 0 of 5, 1 asked, fits in /);
  await fault(at("explain b api --at 25:00"), 2, "usage");
  await fault(at("explain b api --at 14:03 -c rpd=1"), 2, "usage");
  assert.deepEqual((await json(at("refusals top"), 0)).items, [
    { entityId: "a", count: 2 },
    { entityId: "b", count: 1 },
  ]);
  assert.deepEqual((await json(at("refusals top --by limit --top 1 --from 1d"), 0)).items, [
    { limit: "rpd", count: 2 },
  ]);
  assert.match((await here(at("refusals top --to 1d"))).stdout, /^No refusals in that time\.\n$/);
  await fault(at("refusals top --by level"), 2, "usage");
}

export async function usageStory(where: readonly string[]): Promise<void> {
  const at = (line: string) => [...line.split(" "), ...where];
  await json(at("init --yes"), 0);
  await json(at(`resource set-defaults api -l ${SLOW}`), 0);
  for (const tokens of [3, 4]) await json(at(`acquire a api -c tpm=${tokens} --allow-unknown`), 0);
  const { items } = await json(at("usage list -e a --from 2h"), 0);
  assert.equal(
    items.reduce((sum: number, item: Json) => sum + item.counters.tpm, 0),
    7,
  );
  assert.deepEqual((await json(at("usage summary -r api -w monthly"), 0)).requests, 2);
  const byEntity = (await json(at("usage totals --by resource -r api -w monthly"), 0)).items;
  assert.deepEqual(
    byEntity.map(({ resource, requests }: { resource: string; requests: number }) => [resource, requests]),
    [["api", 2]],
  );
  const csv = (await here(at("usage export -w daily"))).stdout.split("\n");
  assert.equal(
    csv[0],
    "entityId,resource,window,windowStart,windowEnd,requests,limit,tokens,overdrafts,bypassed,wouldRefuse,heldMs",
  );
  assert.match(csv[1] ?? "", /^a,api,daily,.*,tpm,\d,0,0,0,0$/);
  const chart = await json(at("usage chart -w monthly -l tpm"), 0);
  assert.deepEqual([chart.window, chart.series[0].limit], ["monthly", "tpm"]);
  assert.match((await here(at("usage chart -w monthly"))).stdout, /^tpm {2}7 in (1 window|2 windows)\n20.*█/);
  await fault(at("usage list -w weekly"), 2, "usage");
}
