import assert from "node:assert/strict";
import { inspect } from "node:util";
import type { RedisBatches } from "../../src/adapters/redis/batches.ts";
import { draftedLease } from "../../src/adapters/redis/bucket-bytes.ts";
import type { RedisConnection, Reply } from "../../src/adapters/redis/connection.ts";
import { INDEXES, type IndexName, memberOf, type NamespaceKeys } from "../../src/adapters/redis/keys.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type {
  Batch,
  BatchReply,
  DraftedLease,
  RowOperation,
  StraightRow,
  VersionedRow,
} from "../../src/ports/batch-store.ts";
import { addText } from "../../src/stored/open-hour.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { straightWorld } from "../kit/straight-whole.ts";
import { BatchDraws, HOUR_MS, KEYS, LEASE_KEYS, MARKS, PRESENT, T0 } from "./batch-draws.ts";

const NAMESPACE = "default";

/** Plays random batches, and what else there is of buckets, on a server and in memory: after each step both hold the same. */
export class BatchWorld {
  readonly #random: SeededRandom;
  readonly #draws: BatchDraws;
  readonly #memory = straightWorld(() => this.#draws.nowMs);
  readonly #server: RedisBatches;
  readonly #connection: RedisConnection;
  readonly #at: NamespaceKeys;
  readonly #seqs = new Map<string, number>();
  /** What happened, by kind: that it did happen is for tests to see. */
  readonly seen = new Map<string, number>();
  #last: Batch | undefined;
  #writes = 0;
  #versions: Versions = { present: new Map(), earlier: new Map() };
  #ownVersions = this.#versions;

  /** `open`: takes on the server, by this clock. */
  constructor(
    random: SeededRandom,
    connection: RedisConnection,
    at: NamespaceKeys,
    open: (now: () => number) => RedisBatches,
  ) {
    this.#random = random;
    this.#draws = new BatchDraws(random);
    this.#connection = connection;
    this.#at = at;
    this.#server = open(() => this.#draws.nowMs);
  }

  async play(steps: number): Promise<void> {
    const random = this.#random;
    for (let step = 0; step < steps; step++) {
      if (random.chance(0.5)) this.#draws.nowMs += random.pick([1, 50, 4_000, random.chance(0.1) ? HOUR_MS : 10]);
      const act = random.weighted<() => Promise<void>>([
        [20, () => this.#batch()],
        [2, () => this.#configure()],
        [2, () => this.#keyBegun()],
        [2, () => this.#mark()],
        [1, () => this.#forget()],
        [1.5, () => this.#operate()],
        [0.3, () => this.#delete()],
        [1, () => this.#listed()],
        [0.5, () => this.#connection.send([["SCRIPT", "FLUSH"]]).then(() => {})],
      ]);
      await act();
      await this.#compare(`step ${step}`);
    }
    await this.#compareIndexes();
  }

  async #batch(): Promise<void> {
    const random = this.#random;
    const { batches, records } = this.#memory;
    const lane = random.pick(["lane-1", "lane-2"]);
    const seq = (this.#seqs.get(lane) ?? 0) + 1;
    const drawn = this.#draws.batch(
      batches.rows,
      { lane, seq, isRepeat: random.chance(0.1) },
      records.generationOf(NAMESPACE),
    );
    // A number that was never used, and is too small by now.
    const late = { ...drawn, seq: -this.#draws.nowMs - random.next() };
    const before = random.chance(0.2) ? late : { ...(this.#last ?? drawn), isRepeat: true };
    const batch = random.chance(0.15) ? before : drawn;
    this.#seqs.set(batch.lane, Math.max(batch.seq, this.#seqs.get(batch.lane) ?? 0));
    this.#last = batch;
    const own = this.#withVersions(batch, this.#ownVersions);
    const other = this.#withVersions(batch, this.#versions);
    const isTwice = random.chance(0.3);
    const replies = await Promise.all([
      this.#server.apply(other, 30_000),
      ...(isTwice ? [this.#server.apply(other, 30_000)] : []),
    ]);
    // Where the script asked the one that came first for more, the other one is done first.
    const [found, again] = replies.sort((a, b) => Number(isRepeated(a)) - Number(isRepeated(b))) as [
      BatchReply,
      BatchReply?,
    ];
    const expected = await batches.apply(own);
    this.#note(batch, expected);
    same(shown(found), shown(expected), inspect(batch, { depth: 9 }));
    const [writes] = await this.#connection.send([["GET", this.#at.writes]]);
    if (found.kind === "done" && !found.repeated) assert.equal(this.#writes, Number(textIn(writes) ?? 0), "writes");
    if (isTwice) same(shown(again as BatchReply), shown(await batches.apply(own)), "the same batch again");
  }

  /** Told of the number of writes that a batch has found. */
  noteWrites(writes: number): void {
    this.#writes = writes;
  }

  /** Rows are brought for the present version, which each store counts for itself, or for one that never was. */
  #withVersions(batch: Batch, { present, earlier }: Versions): Batch {
    const buckets = batch.buckets.map(({ key, brought }) => {
      if (brought === undefined || brought.version > PRESENT) return { key, brought };
      const versions = brought.version === PRESENT ? present : earlier;
      return { key, brought: { ...brought, version: versions.get(`${NAMESPACE}\n${key.id}`) ?? 0 } };
    });
    return { ...batch, buckets };
  }

  #note({ requests }: Batch, reply: BatchReply): void {
    const note = (what: string) => this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
    if (reply.kind !== "done" || reply.repeated) {
      note(reply.kind === "done" ? "repeated" : reply.kind);
      return;
    }
    for (const [i, { kind }] of reply.replies.entries()) {
      note(`${requests[i]?.kind} ${kind}`);
      if (requests[i]?.draft !== undefined) note(`draft ${kind}`);
    }
  }

  /** A change of configuration, which says what it touches, or that it may be everything. */
  async #configure(): Promise<void> {
    const { records } = this.#memory;
    const random = this.#random;
    const names = ["a", "b", "api", "plan", "far", 'q"\\/'];
    const touched = random.chance(0.2) ? undefined : names.filter(() => random.chance(0.15));
    const guard = { kind: "generation", generation: records.generationOf(NAMESPACE) } as const;
    const nothing = { puts: [], deletes: [], event: undefined } as const;
    await records.commit({ ...nothing, scope: NAMESPACE, guard, bumps: [NAMESPACE], touched, sent: "first" });
    const generation = records.generationOf(NAMESPACE);
    const changes = JSON.stringify(records.changesSince(NAMESPACE, generation - 128));
    await this.#connection.send([["MSET", this.#at.generation, String(generation), this.#at.changes, changes]]);
  }

  /** Somebody begins with an idempotency key, or has it answered. */
  async #keyBegun(): Promise<void> {
    const random = this.#random;
    const key = [random.pick(LEASE_KEYS)];
    const body = {
      ...{
        mark: random.weighted([
          [3, MARKS[0]],
          [1, MARKS[1]],
        ]),
        fingerprint: 'f "1"',
        untilMs: this.#draws.nowMs + 5,
        forgottenAtMs: T0,
      },
      ...(random.chance(0.2) ? { answer: "told" } : {}),
    };
    this.#memory.records.putAtOnce(NAMESPACE, { kind: "leaseKey", key, by: { forgottenAtMs: T0 }, body });
    const text = `1\n${JSON.stringify({ forgottenAtMs: T0 })}\n${JSON.stringify(body)}`;
    await this.#connection.send([["SET", this.#at.record({ kind: "leaseKey", key }), text]]);
  }

  async #mark(): Promise<void> {
    const random = this.#random;
    const key = random.pick(KEYS);
    const stored = this.#memory.batches.rows.get(`${NAMESPACE}\n${key.id}`)?.marks ?? null;
    const marks = { seen: random.pick([stored, null, "x"]), next: `{"l0":["80@\u00fc","${random.integer(0, 99)}"]}` };
    const [found, expected] = [
      await this.#server.mark(NAMESPACE, key, marks),
      await this.#memory.batches.mark(NAMESPACE, key, marks),
    ];
    assert.equal(found, expected, "mark");
  }

  async #forget(): Promise<void> {
    const random = this.#random;
    const idle = KEYS.filter(() => random.chance(0.3)).map((key) => {
      const left = random.chance(0.4) ? [this.#draws.left(), this.#draws.left()] : [];
      return { key, left, isOf: random.chance(0.7) };
    });
    const idleIn = ({ present, earlier }: Versions) =>
      idle.map(({ isOf, ...one }) => {
        return { ...one, version: (isOf ? present : earlier).get(`${NAMESPACE}\n${one.key.id}`) ?? 987 };
      });
    const found = await this.#server.forget(NAMESPACE, idleIn(this.#versions));
    const { batches } = this.#memory;
    const expected = await batches.forget(NAMESPACE, idleIn(this.#ownVersions));
    assert.equal(found, expected, "forget");
  }

  async #operate(): Promise<void> {
    const random = this.#random;
    const { batches } = this.#memory;
    const bucket = random.pick(KEYS);
    const id = `${NAMESPACE}\n${bucket.id}`;
    const nowMs = this.#draws.nowMs;
    const event: AuditEvent = {
      eventId: random.id(),
      atMs: nowMs,
      action: "bucket_reset",
      entityId: bucket.entityId,
      details: {},
    };
    const isOf = random.chance(0.8);
    const left = random.chance(0.4) ? [this.#draws.left()] : [];
    const row: StraightRow = this.#draws.row();
    const operation = (version: number | undefined): RowOperation => ({
      ...{ namespaceId: NAMESPACE, bucket, idempotencyKey: random.pick(["o#1", "o 2"]), nowMs, event },
      ...{ forgottenMs: nowMs - 10_000, amountsText: `[["l0","${nowMs}"]]` },
      brought: { version: isOf ? (version ?? 0) : 77, row, left },
    });
    const own = operation(this.#ownVersions.present.get(id));
    const other = { ...own, brought: { ...own.brought, version: isOf ? (this.#versions.present.get(id) ?? 0) : 77 } };
    const [found, expected] = [await this.#server.operate(other), await batches.operate(own)];
    assert.deepEqual(found, expected, "operate");
    assert.equal(await this.#server.operated(other), await batches.operated(own), "operated");
  }

  /** An entity is deleted with everything that there is of it. */
  async #delete(): Promise<void> {
    const entityId = this.#random.pick(["a", "b", "c"]);
    this.#memory.batches.dropEntity(NAMESPACE, entityId);
    for (const letter of ["b", "u", "o"]) {
      const [keys] = await this.#connection.send([["KEYS", `${this.#beginning()}${letter}#${entityId}#*`]]);
      for (const key of texts(keys)) await this.#connection.send([["MSET", key, ""]]);
    }
  }

  async #listed(): Promise<void> {
    const random = this.#random;
    const page = { limit: random.integer(1, 4) };
    const { batches } = this.#memory;
    for (const entityId of [undefined, "b"]) {
      let cursor: string | undefined;
      do {
        const by = { ...page, ...(cursor === undefined ? {} : { cursor }) };
        const owner = entityId === undefined ? {} : { entityId };
        const expected = await batches.listKeys(NAMESPACE, owner as never, by);
        assert.deepEqual(await this.#server.listKeys(NAMESPACE, owner as never, by), expected);
        cursor = expected.cursor;
      } while (cursor !== undefined);
    }
    const [found, expected] = [
      await this.#server.listByResource(NAMESPACE, "x", page),
      await batches.listByResource(NAMESPACE, "x", page),
    ];
    assert.deepEqual(
      found.items.map(({ key, row }) => [key, withoutVersion(row)]),
      expected.items.map(({ key, row }) => [key, withoutVersion(row)]),
    );
    assert.equal(found.cursor, expected.cursor);
    const bounds = { limitMax: 3, epochBeforeMs: this.#draws.nowMs - 1_000 };
    const from = random.pick([bucketKey("", ""), bucketKey("b", "api"), bucketKey("b", "b")]);
    const [some, must] = [
      await this.#server.some(NAMESPACE, from, bounds),
      await batches.some(NAMESPACE, from, bounds),
    ];
    const looked = (all: typeof some) => all.map(({ key, row }) => [key, row && withoutVersion(row)]);
    assert.deepEqual(looked(some), looked(must));
  }

  async #compare(what: string): Promise<void> {
    const { batches, records } = this.#memory;
    const rows = await this.#server.read(NAMESPACE, KEYS);
    const [before, ownBefore] = [this.#versions, this.#ownVersions];
    this.#versions = versionsAfter(before, rows);
    this.#ownVersions = versionsAfter(
      ownBefore,
      KEYS.map(({ id }) => batches.rows.get(`${NAMESPACE}\n${id}`)),
    );
    for (const { id } of KEYS) {
      const name = `${NAMESPACE}\n${id}`;
      const [was, is] = [before.present.get(name), this.#versions.present.get(name)];
      const isNew = ownBefore.present.get(name) !== this.#ownVersions.present.get(name);
      assert.equal(was !== is, isNew, `${what}: version ${was} became ${is}`);
      const last = Math.max(was ?? 0, before.earlier.get(name) ?? 0);
      assert.ok(!isNew || is === undefined || is > last, `${what}: version ${is} after ${last}`);
    }
    for (const [i, key] of KEYS.entries()) {
      const expected = batches.rows.get(`${NAMESPACE}\n${key.id}`);
      const found = rows[i];
      same(found && withoutVersion(found), expected && withoutVersion(expected), `${what}: ${key.id}`);
    }
    same(await this.#usage(), new Map([...batches.usage].sort()), `${what}: usage`);
    const leaseKeys = await this.#connection.send(
      LEASE_KEYS.map((key) => ["GET", this.#at.record({ kind: "leaseKey", key: [key] })]),
    );
    for (const [i, key] of LEASE_KEYS.entries()) {
      const kept = records.readAtOnce(NAMESPACE, { kind: "leaseKey", key: [key] })?.body as KeyBody | undefined;
      const [, by, body] = textIn(leaseKeys[i])?.split("\n") ?? [];
      const found = body === undefined ? undefined : (JSON.parse(body) as KeyBody);
      same(shownKey(found, draftedLease(found?.drafted)), shownKey(kept, draftIn(kept?.drafted)), what);
      if (found !== undefined) assert.deepEqual(JSON.parse(by as string), { forgottenAtMs: found.forgottenAtMs });
    }
    const leases = await this.#under("l");
    for (const [id, value] of leases) {
      const kept = records.readAtOnce(NAMESPACE, { kind: "lease", key: [id] });
      const [, by, body] = value.toString("utf8").split("\n");
      const drafted = draftedLease(JSON.parse(body as string));
      same(shownDraft(drafted), shownDraft(draftIn(kept?.body)), `${what}: lease ${id}`);
      assert.equal((JSON.parse(by as string) as { entityId: string }).entityId, "a");
    }
  }

  async #usage(): Promise<ReadonlyMap<string, bigint>> {
    const all: [string, bigint][] = [];
    for (const [name, value] of await this.#under("u")) {
      const counters = new Map<string, bigint>();
      addText(counters, value.toString("utf8"));
      const [entity, resource, hour] = name.split("#");
      for (const [counter, milli] of counters) {
        all.push([[NAMESPACE, entity, resource, hour, counter].join("\n"), milli]);
      }
    }
    return new Map(all.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Everything that there is stands in its indexes. */
  async #compareIndexes(): Promise<void> {
    const requireMember = async (index: IndexName, ...parts: readonly (string | number)[]) => {
      const [score] = await this.#connection.send([["ZSCORE", this.#at.index(index), memberOf(...parts)]]);
      assert.notEqual(score, null, `${INDEXES[index]} ${parts.join(" ")}`);
    };
    for (const [name] of await this.#under("b")) {
      const [entity = "", resource = ""] = name.split("#");
      await requireMember("bucketsByEntity", entity, resource);
      await requireMember("bucketsByResource", resource, entity);
    }
    for (const [name] of await this.#under("u")) {
      const [entity = "", resource = "", hour] = name.split("#");
      await requireMember("usageByHour", Number(hour), entity, resource);
      await requireMember("usageByBucket", entity, resource, Number(hour));
    }
    for (const [id, value] of await this.#under("l")) {
      const { dueAtMs } = JSON.parse(value.toString("utf8").split("\n")[1] as string) as { readonly dueAtMs: number };
      await requireMember("leasesDue", dueAtMs, id);
    }
    const lanes = await this.#connection.send([["ZRANGEBYLEX", this.#at.index("lanes"), "-", "+"]]);
    const named = texts(lanes[0]).map((member) => member.split("\n")[1]);
    for (const [lane] of await this.#under("w")) assert.ok(named.includes(lane), lane);
  }

  #beginning(): string {
    return this.#at.generation.slice(0, -1);
  }

  /** Values that are not empty under keys of a letter, by the rest of the key. */
  async #under(letter: string): Promise<ReadonlyMap<string, Buffer>> {
    const begin = `${this.#beginning()}${letter}#`;
    const [keys] = await this.#connection.send([["KEYS", `${begin}*`]]);
    const found = texts(keys).sort();
    if (found.length === 0) return new Map();
    const [values] = await this.#connection.send([["MGET", ...found]]);
    const all = found.map((key, i) => [key.slice(begin.length), (values as readonly Buffer[])[i] as Buffer] as const);
    return new Map(all.filter(([, value]) => value !== null && value.length > 0));
  }
}

/** Of rows: the version that each has, and another one that it had before. */
interface Versions {
  readonly present: ReadonlyMap<string, number>;
  readonly earlier: ReadonlyMap<string, number>;
}

function versionsAfter(before: Versions, rows: readonly (VersionedRow | undefined)[]): Versions {
  const present = new Map<string, number>();
  const earlier = new Map(before.earlier);
  for (const [i, { id }] of KEYS.entries()) {
    const [name, version] = [`${NAMESPACE}\n${id}`, rows[i]?.version];
    const was = before.present.get(name);
    if (version !== undefined) present.set(name, version);
    if (was !== undefined && was !== version) earlier.set(name, was);
  }
  return { present, earlier };
}

function isRepeated(reply: BatchReply): boolean {
  return reply.kind === "done" && reply.repeated;
}

function same(found: unknown, expected: unknown, what: string): void {
  try {
    assert.deepEqual(found, expected);
  } catch (error) {
    assert.fail(`${what}: ${(error as Error).message}`);
  }
}

interface KeyBody {
  readonly forgottenAtMs: number;
  readonly drafted?: unknown;
}

function draftIn(body: unknown): DraftedLease | undefined {
  return (body as { readonly draft?: DraftedLease } | undefined)?.draft;
}

function withoutVersion({ version: _, ...row }: { readonly version: number }): unknown {
  return JSON.parse(JSON.stringify(row));
}

function shownDraft(draft: DraftedLease | undefined): unknown {
  if (draft === undefined) return undefined;
  const buckets = draft.buckets.map(({ key, levels, row }) => ({ key, levels, row: withoutVersion(row) }));
  return JSON.parse(JSON.stringify({ ...draft, buckets })) as unknown;
}

function shownKey(body: KeyBody | undefined, draft: DraftedLease | undefined): unknown {
  return body && { ...body, drafted: shownDraft(draft) };
}

function shown(reply: BatchReply): unknown {
  if (reply.kind !== "done") return reply.kind === "superseded" ? reply : String(reply.cause);
  const rows = reply.rows.map((row) => row && withoutVersion(row));
  return JSON.parse(JSON.stringify({ ...reply, rows })) as unknown;
}

function textIn(reply: Reply | undefined): string | undefined {
  return reply === null || reply === undefined ? undefined : Buffer.from(reply as Uint8Array).toString("utf8");
}

function texts(reply: Reply | undefined): string[] {
  return (reply as readonly Reply[]).map((one) => textIn(one) ?? "");
}
